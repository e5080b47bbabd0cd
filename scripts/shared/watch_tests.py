"""Passes on what ctest prints; says what runs for long, and at the end what was
skipped, why, and what brings it.

usage: ctest ... | watch_tests.py LOG      LOG: ctest's LastTest.log
"""
import collections
import os
import re
import selectors
import sys
import time

# A suite that has run for so long is named, with what it does if that is known.
LONG = 60  # seconds
KNOWN = {
    "Install.": "it builds programs against an installed copy",
    "Python.extension": "it builds the Python extension",
    "LastingRun": "it trains for long",
}

CHECKS = "scripts/setup --checks"
# What a reason says, and the command that brings what is missing. The first
# that fits; every other reason is printed as it is.
REMEDIES = [
    (re.compile(r"no pytest|could not import|nanobind"), "pytest and packages",
     CHECKS),
    (re.compile(r"no mpirun|has no MPI"), "MPI", CHECKS),
    (re.compile(r"no Slurm"), "Slurm", CHECKS),
    (re.compile(r"no zsh|no fish"), "zsh and fish", CHECKS),
    (re.compile(r"tango-icon-theme"), "tango-icon-theme", CHECKS),
    (re.compile(r"no network namespaces"), "network namespaces",
     "run as root, where containers may make them"),
    (re.compile(r"SLUICE_DATA"), "the data sets",
     "`sluice data fetch`, then SLUICE_DATA"),
    (re.compile(r"no GPU|one GPU|no CUDA IPC"), "GPUs", "scripts/test-gpu"),
]


class Running:
    """The suites that ctest has started, and since when."""

    START = re.compile(r"^\s+Start\s+\d+: (.+)$")
    END = re.compile(r"^\s*\d+/\d+ Test\s+#\d+: (\S.*?) \.*")

    def __init__(self, now=time.monotonic):
        self.now = now
        self.since = {}
        self.told = set()

    def see(self, line):
        if start := self.START.match(line):
            self.since[start[1]] = self.now()
        elif end := self.END.match(line):
            self.since.pop(end[1], None)

    def long_ones(self):
        """Lines about those that have just become long."""
        for name, since in self.since.items():
            if name in self.told or self.now() - since < LONG:
                continue
            self.told.add(name)
            does = next((text for key, text in KNOWN.items()
                         if name.startswith(key)), "")
            yield (f"        {name} has run for {LONG} s"
                   f"{': ' if does else ''}{does}; still waiting for it")


def reasons_in(output):
    """Why tests of a suite were skipped, from all that it printed."""
    lines = output.splitlines()
    for i, line in enumerate(lines):
        if line.startswith("skipped: "):  # tests/python
            yield line[len("skipped: "):]
        elif line.startswith("SKIPPED ["):  # pytest -rs
            yield line.split(": ", 1)[-1]
        elif line.endswith(": Skipped") and i + 1 < len(lines):  # GoogleTest
            yield lines[i + 1]


def suites_in(log):
    """Name and output of each suite in ctest's log."""
    name, output = "", None
    for line in log:
        if start := re.match(r"^\d+/\d+ Test: (.*)$", line):
            name, output = start[1], []
        elif output is not None:
            output.append(line)
            if line.startswith("<end of output>"):
                yield name, "".join(output)
                output = None


def lack_of(reason):
    """What the machine lacks by that reason, and what brings it."""
    for pattern, lack, remedy in REMEDIES:
        if pattern.search(reason):
            return lack, remedy
    return reason.strip(), ""


def summary(suites):
    """A line for each remedy, and one for what has none."""
    suites_of = collections.defaultdict(lambda: collections.defaultdict(set))
    for name, output in suites:
        for reason in reasons_in(output):
            lack, remedy = lack_of(reason)
            suites_of[remedy][lack].add(name)
    for remedy, lacks in sorted(suites_of.items(), reverse=True):
        count = len(set().union(*lacks.values()))
        why = ", ".join(f"{lack} ({len(names)})"
                        for lack, names in sorted(lacks.items()))
        line = (f"Skipped, wholly or in part: {count} "
                f"suite{'' if count == 1 else 's'}. ")
        yield line + (f"Missing: {why}. To have them run: {remedy}" if remedy
                      else f"Why: {why}")


def pass_on(source, running):
    """Prints what comes; and what has become long, while nothing does."""
    waits = selectors.DefaultSelector()
    waits.register(source, selectors.EVENT_READ)
    rest = b""
    while True:
        if waits.select(timeout=1):
            data = os.read(source.fileno(), 1 << 16)
            if not data:
                break
            sys.stdout.buffer.write(data)
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                running.see(line.decode(errors="replace"))
        for line in running.long_ones():
            print(line)
        sys.stdout.flush()


def main():
    log, began = sys.argv[1], time.time()
    pass_on(sys.stdin.buffer, Running())
    # One of an earlier time says nothing of this one.
    if not os.path.exists(log) or os.path.getmtime(log) < began:
        return
    with open(log, encoding="utf-8", errors="replace") as file:
        for line in summary(suites_in(file)):
            print(line)


if __name__ == "__main__":
    main()
