# SPDX-License-Identifier: Apache-2.0
"""Opens a roofline without a screen and prints what is on it: browse_roofline.py PAGE light|dark"""
import re
import subprocess
import sys
import tempfile

page, theme = sys.argv[1:]
with tempfile.TemporaryDirectory() as profile:
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--enable-logging=stderr",
         "--window-size=1400,1600", "--dump-dom", f"file://{page}#{theme}"], capture_output=True, text=True, timeout=60)
# A validation layer prints beside the page. Without the script and its data, only what was drawn is left.
dom = re.sub(r"<script.*?</script>", "", re.search(r"<html.*</html>", done.stdout, flags=re.S)[0], flags=re.S)
print("theme", re.search(r'<html[^>]*data-theme="(\w+)"', dom)[1])
for name, value in re.findall(r'data-tile="([^"]*)"><span>[^<]*</span><b>([^<]*)', dom):
    print("tile", name, value)
for axis, text in re.findall(r'data-axis="(\w)">([^<]*)', dom):
    print("axis", axis, text)
for roof, text in re.findall(r'data-roof="(\w+)"[^>]*>([^<]*)', dom):
    print("ceiling", roof, text)
view = [float(part) for part in re.search(r'viewBox="([^"]*)"', re.search(r'<svg role="img".*?>', dom)[0])[1].split()]
points = re.findall(r'<circle cx="([^"]*)" cy="([^"]*)" r="([^"]*)"[^>]*data-kernel=', dom)
print("points", len(points))
print("outside", sum(not (0 < float(x) < view[2] and 0 < float(y) < view[3]) for x, y, r in points))
print("rows", re.search(r'<table id="kernel-table">.*?<tbody>(.*?)</tbody>', dom, flags=re.S)[1].count("<tr>"))
broken = re.findall(r".{0,60}(?:NaN|undefined|Infinity).{0,30}", dom)
print("broken", len(broken), *broken)
console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
print("console", len(console), *console)
