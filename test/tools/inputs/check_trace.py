# SPDX-License-Identifier: Apache-2.0
"""Checks a trace of tg-run profile: check_trace.py FILE CALLS. Events of a track nest or lie apart, as viewers want."""
import json
import sys

trace = json.load(open(sys.argv[1]))
tracks, names = {}, {}
for event in trace["traceEvents"]:
    assert event["ph"] in "XM" and {"pid", "tid", "name"} <= event.keys(), event
    if event["ph"] == "M":
        names[event["tid"]] = event["args"]["name"]
        continue
    assert event["ts"] >= 0 and event["dur"] >= 0, event
    tracks.setdefault(event["tid"], []).append(event)
assert names[1] == "host" and names[2].startswith("device: "), names
for events in tracks.values():
    # Microseconds as doubles: two sums of the same times may differ in the last places.
    open_until = []
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        while open_until and open_until[-1] <= event["ts"] + 1e-6:
            open_until.pop()
        assert not open_until or event["ts"] + event["dur"] <= open_until[-1] + 1e-6, event
        open_until.append(event["ts"] + event["dur"])
calls = [event for event in tracks[1] if event["name"].startswith("@train ")]
assert len(calls) == int(sys.argv[2]), calls
for call in calls:
    inside = [event for event in tracks[2] if call["ts"] - 1e-6 <= event["ts"] and event["ts"] + event["dur"] <= call["ts"] + call["dur"] + 1e-6]
    assert len(inside) == len(tracks[2]) / len(calls), call
