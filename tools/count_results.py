#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""count_results.py REPORT STATUS: prints `passed failed` for a JUnit report of ctest or lit, then
the name of each failed case and the end of its output.

A suite that exits with a non-zero status but has no failed case, or has no readable report, counts
as one failure, so a crashed runner or an empty suite never looks like success. Skipped cases are not
counted.
"""
import sys
import xml.etree.ElementTree as xml


LINES_SHOWN = 20


def output_of(case):
    """The last lines of a failed case's output: ctest's `system-out`, lit's `failure`."""
    parts = [case.find("system-out"), case.find("failure"), case.find("error")]
    text = next((part.text for part in parts if part is not None and part.text), "")
    return text.strip().splitlines()[-LINES_SHOWN:]


def count(report, status):
    """The numbers of passed and failed cases of the report, and the failed ones as (name, last lines)."""
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
