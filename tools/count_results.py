#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""count_results.py REPORT STATUS: prints `passed failed` for a JUnit report of ctest or lit, then
the name of each failed case and the end of its output. A test of ctest with a report of its own,
cases/NAME.xml beside REPORT, stands for the cases in that report.

A suite that exits with a non-zero status but has no failed case, or has no readable report, counts
as one failure, so a crashed runner or an empty suite never looks like success. Skipped cases are not
counted.
"""
import os
import sys
import xml.etree.ElementTree as xml


LINES_SHOWN = 20


def output_of(case):
    """The last lines of a failed case's output: ctest's `system-out`, lit's and GoogleTest's `failure`."""
    parts = [case.find("system-out"), case.find("failure"), case.find("error")]
    text = next((part.text for part in parts if part is not None and part.text), "")
    return text.strip().splitlines()[-LINES_SHOWN:]


def cases_of(report):
    """The cases of a JUnit report; none if it cannot be read."""
    try:
        return list(xml.parse(report).getroot().iter("testcase"))
    except (OSError, xml.ParseError):
        return []


def failed(case):
    return case.find("failure") is not None or case.find("error") is not None


def count(report, status):
    """The numbers of passed and failed cases of the report, and the failed ones as (name, last lines)."""
    passed = 0
    failures = []
    cases = []
    for case in cases_of(report):
        own = cases_of(os.path.join(os.path.dirname(report), "cases", case.get("name") + ".xml"))
        for each in own:
            each.set("name", f"{each.get('classname')}.{each.get('name')}")
        cases += own
        # A process may also fail after its last case, at a leak.
        if not own or failed(case) and not any(map(failed, own)):
            cases.append(case)
    for case in cases:
        if failed(case):
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
