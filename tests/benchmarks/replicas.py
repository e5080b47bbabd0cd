#!/usr/bin/env python3
"""Two replicas in processes of one thread each, every one with the batch of one
process alone, on three nets: `sluice run` with replicas.count = 2 over `sluice
run` with 1, and over DistributedDataParallel with Gloo (data_parallel_rival.py,
whose buckets and optimizer are tuned) with the same batch in each process. The
programs are run in turns; printed are medians in samples per second, the medians
of the rounds' ratios, and all rounds, as Markdown. "floor" is the speed-up that
would be left if a turn took one process's time and, after it, that in which the
two read and write what they exchange, at the bandwidth of this machine's memcpy.

usage: replicas.py [--build DIR] [--rounds N] [--steps N] [CASE...]

--build: where sluice is (build/release).
--rounds: default: 11.
--steps: of each measurement; default: each net's own.
Runs with a Python that has torch.
"""
import argparse
import pathlib
import statistics
import sys
import tempfile
import time

import torch

import handoff

HERE = pathlib.Path(__file__).resolve().parent


def memcpy_bandwidth():
    """Bytes per second, of which each is read and written."""
    source = torch.ones(1 << 24)
    target = torch.empty_like(source)
    best = 0
    for _ in range(5):
        start = time.monotonic()
        target.copy_(source)
        best = max(best, source.nbytes / (time.monotonic() - start))
    return best


def parameters_of(folder):
    return sum(record["parameters"] for record in handoff.records_of(folder)
               if record["kind"] == "block" and record.get("replica", 1) == 1)


class Measured:
    def __init__(self, bench, case):
        self.bench, self.case = bench, case
        self.seen = {"one": [], "two": [], "DDP": []}
        self.bytes = 0

    def once(self):
        self.seen["one"].append(self.bench.sluice(self.case, 1, "blocks=1"))
        self.seen["two"].append(2 * self.bench.sluice(
            self.case, 1, "blocks=1", "replicas.count=2"))
        self.bytes = 4 * parameters_of(self.bench.root / "run")
        both = 2 * self.bench.batch[self.case]
        self.seen["DDP"].append(float(handoff.output_of(
            [sys.executable, HERE / "data_parallel_rival.py", self.case,
             str(both), str(self.bench.steps[self.case])])))

    def median(self, what):
        return statistics.median(self.seen[what])

    def ratio(self, one, other):
        pairs = zip(self.seen[one], self.seen[other])
        return f"{statistics.median(a / b for a, b in pairs):.3f}"

    def floor(self, bandwidth):
        """Each reads its half of the other's, and the other half's sums."""
        turn = self.bench.batch[self.case] / self.median("one")
        return 2 / (1 + self.bytes / bandwidth / turn)

    def row(self, bandwidth):
        return [self.case, *(f"{self.median(w):.0f}" for w in self.seen),
                self.ratio("two", "one"), f"{self.floor(bandwidth):.2f}",
                self.ratio("two", "DDP"), f"{self.bytes / 2**20:.1f}"]

    def details(self):
        for what, values in self.seen.items():
            yield [self.case, what, " ".join(f"{v:.0f}" for v in values)]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--build", type=pathlib.Path,
                           default=HERE.parent.parent / "build" / "release")
    arguments.add_argument("--rounds", type=int, default=11)
    arguments.add_argument("--steps", type=int)
    arguments.add_argument("cases", nargs="*", default=[])
    asked = arguments.parse_args()
    steps = {case: asked.steps or own for case, own in handoff.STEPS.items()}
    bandwidth = memcpy_bandwidth()
    summary = [["net", "one process", "two replicas", "DDP", "over one",
                "floor", "over DDP", "MiB exchanged"]]
    details = [["net", "program", "samples/s of each round"]]
    with tempfile.TemporaryDirectory(prefix="sluice-replicas-") as root:
        bench = handoff.Bench(asked.build.resolve(), pathlib.Path(root), steps)
        for case in asked.cases or list(handoff.STEPS):
            measured = Measured(bench, case)
            for _ in range(asked.rounds):
                measured.once()
            summary.append(measured.row(bandwidth))
            details.extend(measured.details())
    print(f"memcpy: {bandwidth / 1e9:.1f} GB/s\n")
    for rows in (summary, details):
        handoff.table(rows)
        print()


if __name__ == "__main__":
    main()
