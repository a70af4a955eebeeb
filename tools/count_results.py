#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""count_results.py REPORT STATUS: prints `passed failed` for a JUnit report of ctest or lit, then
the name of each failed case and the end of what it printed.

A suite that ends with a non-zero status without a failed case, or without a readable report, counts
as one failure: a crashed runner or an empty suite never looks like success. Skipped cases count as
neither.
"""
import sys
import xml.etree.ElementTree as xml


LINES_SHOWN = 20


def output_of(case):
    """The last lines a failed case printed: ctest's `system-out`, lit's `failure`."""
    parts = [case.find("system-out"), case.find("failure"), case.find("error")]
    text = next((part.text for part in parts if part is not None and part.text), "")
    return text.strip().splitlines()[-LINES_SHOWN:]


def count(report, status):
    """Passed and failed cases of the report, and the failed ones as (name, last lines)."""
    passed = 0
    failures = []
    try:
        cases = list(xml.parse(report).getroot().iter("testcase"))
    except (OSError, xml.ParseError):
        cases = []
    for case in cases:
        if case.find("failure") is not None or case.find("error") is not None:
            failures.append((case.get("name"), output_of(case)))
        elif case.find("skipped") is None and case.get("status") not in ("notrun", "disabled"):
            passed += 1
    if not failures and (status != 0 or not cases):
        failures.append((f"{report}: status {status}, {len(cases)} cases", []))
    return passed, failures


if __name__ == "__main__":
    good, bad = count(sys.argv[1], int(sys.argv[2]))
    print(good, len(bad))
    for name, lines in bad:
        print(f"FAILED: {name}")
        for line in lines:
            print(f"  {line}")
