"use strict";
// What the pages of a run and of a profile share; each goes on with its own script behind this.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = id => document.getElementById(id);

// ---- small makers
function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
function draw(tag, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

// ---- numbers for people
const known = value => typeof value === "number" && isFinite(value);
// A number in some digits; very small and large ones as a power of ten behind `places` decimals.
function digitsOf(value, digits, places) {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(Math.max(0, places)).replace(/\.?0*e\+?/, "e");
  return String(+value.toPrecision(Math.max(digits, Math.ceil(Math.log10(size + 1)))));
}
function scaled(value, base, units, digits = 4) {
  if (!known(value)) return "–";
  let unit = 0;
  while (Math.abs(value) >= base && unit + 1 < units.length) value /= base, ++unit;
  return `${Number.isInteger(value) ? value : +value.toPrecision(digits)} ${units[unit]}`;
}

// ---- the theme: what a person chose, or what the system has
const themes = ["auto", "light", "dark"], systemDark = matchMedia("(prefers-color-scheme: dark)");
function showTheme(theme) {
  document.documentElement.dataset.theme = (theme === "auto" ? systemDark.matches : theme === "dark") ? "dark" : "light";
}
