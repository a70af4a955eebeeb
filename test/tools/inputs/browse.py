# SPDX-License-Identifier: Apache-2.0
"""Opens a page of runs without a screen and prints what is on it: browse.py PAGE HASH"""
import collections
import html
import re
import subprocess
import sys
import tempfile

page, settings = sys.argv[1:]
with tempfile.TemporaryDirectory() as profile:
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--enable-logging=stderr",
         "--window-size=1400,2000", "--dump-dom", f"file://{page}#{settings}"], capture_output=True, text=True, timeout=60)
# Without the script and its data, only what was drawn is left.
dom = re.sub(r"<script.*?</script>", "", done.stdout, flags=re.S)


def attributes(text):
    return {name: html.unescape(value) for name, value in re.findall(r'([\w-]+)="([^"]*)"', text)}


print("theme", attributes(re.search(r"<html[^>]*>", dom)[0])["data-theme"])
print("state", re.search(r'id="state">([^<]*)', dom)[1], re.search(r'id="note">([^<]*)', dom)[1], sep=" | ")
for name, value in re.findall(r'data-tile="([^"]*)"><span>[^<]*</span><b>([^<]*)', dom):
    print("tile", name, value)
for card in re.split(r'<div class="chart card', dom)[1:]:
    print("chart", re.search(r"<h3>([^<]*)", card)[1], sorted(set(re.findall(r'data-key="([^"]*)"', card))), sep=" | ")
curves = []
for text in re.findall(r"<path [^>]*data-key[^>]*>", dom):
    path = attributes(text)
    curves.append((path["data-run"], path["data-key"], path["class"], len(re.findall("[ML]", path["d"]))))
for curve in sorted(curves):
    print("curve", *curve)
# How far a smoothed curve ends from its raw one, in pixels.
ends = {}
for text in re.findall(r"<path [^>]*data-key[^>]*>", dom):
    path = attributes(text)
    ends[path["data-run"], path["data-key"], path["class"]] = float(path["d"].split()[-1])
for run, key, kind in sorted(ends):
    if kind == "smooth":
        near = abs(ends[run, key, kind] - ends[run, key, "raw"]) < 8
        print("end", run, key, "near" if near else "far")
counts = collections.Counter()
for name, body in re.findall(r'<table id="(\w+)">.*?<tbody>(.*?)</tbody>', dom, flags=re.S):
    counts[name] = body.count("<tr>")
for name in sorted(counts):
    print("rows", name, counts[name])
pressed = re.findall(r'value="(linear|log)" aria-pressed="true"', dom)
print("axes", *pressed, re.findall(r">(step|training time, \w+)</text>", dom)[0])
console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
print("console", len(console), *console)
