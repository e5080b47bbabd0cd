"""Checks a trace.json against what Perfetto's importer of JSON asks of it.

usage: read_trace.py TRACE.json

Perfetto's own program can't be had from a package index, so this isn't it:
slices of a lane must nest (it drops those that overlap), both ends of an arrow
must lie within a slice (else it loses the arrow), counters need numbers.
"""
import json
import pathlib
import sys

SLACK = 1e-3  # us: times are printed in decimal


def check_nesting(lane, slices):
    open_until = []
    for start, end in sorted(slices, key=lambda s: (s[0], -s[1])):
        while open_until and open_until[-1] <= start + SLACK:
            open_until.pop()
        assert not open_until or end <= open_until[-1] + SLACK, (lane, start)
        open_until.append(end)


def within(slices, time):
    return any(start - SLACK <= time <= end + SLACK for start, end in slices)


def main(path):
    trace = json.loads(pathlib.Path(path).read_text())
    assert trace["displayTimeUnit"] in ("ms", "ns")
    events, lanes, names, arrows = trace["traceEvents"], {}, {}, {}
    for event in events:
        assert event["ph"] in "MXCsf", event
        assert isinstance(event["pid"], int)
        if event["ph"] == "X":
            assert event["name"] and event["dur"] >= 0
            lanes.setdefault(event["tid"], []).append(
                (event["ts"], event["ts"] + event["dur"]))
        elif event["ph"] == "C":
            assert all(isinstance(value, (int, float))
                       for value in event["args"].values())
        elif event["ph"] == "M" and event["name"] == "thread_name":
            names[event["tid"]] = event["args"]["name"]
        elif event["ph"] in "sf":
            arrows.setdefault(event["id"], {})[event["ph"]] = event
    assert len(lanes) > 1 and set(lanes) == set(names)
    for lane, slices in lanes.items():
        check_nesting(lane, slices)
    for ends in arrows.values():
        assert set(ends) == {"s", "f"}, ends
        assert ends["s"]["ts"] <= ends["f"]["ts"] and ends["f"]["bp"] == "e"
        for end in ends.values():
            assert within(lanes[end["tid"]], end["ts"]), end
    assert arrows, "blocks send each other messages"
    print(f"{len(events)} events of the timeline are as Perfetto asks")


if __name__ == "__main__":
    main(sys.argv[1])
