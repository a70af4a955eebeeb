#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""count_results.py REPORT STATUS: prints `passed failed` for a JUnit report of ctest or lit.

A suite that ends with a non-zero status without a failed case, or without a readable report, counts
as one failure: a crashed runner or an empty suite never looks like success. Skipped cases count as
neither.
"""
import sys
import xml.etree.ElementTree as xml


def count(report, status):
    passed = failed = 0
    try:
        cases = list(xml.parse(report).getroot().iter("testcase"))
    except (OSError, xml.ParseError):
        cases = []
    for case in cases:
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is None and case.get("status") not in ("notrun", "disabled"):
            passed += 1
    if failed == 0 and (status != 0 or not cases):
        failed = 1
    return passed, failed


if __name__ == "__main__":
    print(*count(sys.argv[1], int(sys.argv[2])))
