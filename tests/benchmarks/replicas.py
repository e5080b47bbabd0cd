#!/usr/bin/env python3
"""Two replicas in processes of one thread each, every one with the batch of one
process alone, on three nets: `sluice run` with replicas.count = 2, whole or with
shard = true, over `sluice run` with 1, and over DistributedDataParallel with Gloo
(data_parallel_rival.py, whose buckets and optimizer are tuned) with the same
batch in each process. "apart" are two replicas that never meet: what the machine
allows. The programs are run in turns; printed are medians in samples per second,
the medians of the rounds' ratios, of the faster of whole and shard, and all
rounds, as Markdown. "floor" is the speed-up that would be left if a turn took one
process's time and, after it, that in which the two read and write what they
exchange, at the bandwidth of this machine's memcpy.

usage: replicas.py [--build DIR] [--rounds N] [--steps N] [--without PROGRAM]...
                   [CASE...]

--build: where sluice is (build/release).
--rounds: default: 11.
--without: shard, whole, apart or DDP.
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


TWO = {
    "whole": [],
    "shard": ["replicas.shard=true"],
    "apart": ["replicas.policy=average", "replicas.every=1000000"],
}
PROGRAMS = ["one", *TWO, "DDP"]


class Measured:
    def __init__(self, bench, case, without):
        self.bench, self.case = bench, case
        self.seen = {name: [] for name in PROGRAMS if name not in without}
        self.bytes = 0

    def once(self):
        for name, seen in self.seen.items():
            seen.append(self.samples_per_second(name))
            if name == "one":
                self.bytes = 4 * parameters_of(self.bench.root / "run")
        print(self.case, *(f"{name} {seen[-1]:.0f}"
                           for name, seen in self.seen.items()),
              file=sys.stderr, flush=True)

    def samples_per_second(self, name):
        if name == "one":
            return self.bench.sluice(self.case, 1, "blocks=1")
        if name in TWO:
            return 2 * self.bench.sluice(self.case, 1, "blocks=1",
                                         "replicas.count=2", *TWO[name])
        both = 2 * self.bench.batch[self.case]
        return float(handoff.output_of(
            [sys.executable, HERE / "data_parallel_rival.py", self.case,
             str(both), str(self.bench.steps[self.case])]))

    def median(self, what):
        return statistics.median(self.seen[what])

    def best(self):
        return max((n for n in ("whole", "shard") if n in self.seen),
                   key=self.median)

    def ratio(self, one, other):
        if other not in self.seen:
            return "-"
        pairs = zip(self.seen[one], self.seen[other])
        return f"{statistics.median(a / b for a, b in pairs):.3f}"

    def floor(self, bandwidth):
        """Each reads its half of the other's, and the other half's sums."""
        turn = self.bench.batch[self.case] / self.median("one")
        return 2 / (1 + self.bytes / bandwidth / turn)

    def row(self, bandwidth):
        best = self.best()
        return [self.case,
                *(f"{self.median(w):.0f}" if w in self.seen else "-"
                  for w in PROGRAMS),
                f"{self.ratio(best, 'one')} ({best})",
                f"{self.floor(bandwidth):.2f}", self.ratio(best, "DDP"),
                self.ratio(best, "apart"), f"{self.bytes / 2**20:.1f}"]

    def details(self):
        for what, values in self.seen.items():
            yield [self.case, what, " ".join(f"{v:.0f}" for v in values)]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--build", type=pathlib.Path,
                           default=HERE.parent.parent / "build" / "release")
    arguments.add_argument("--rounds", type=int, default=11)
    arguments.add_argument("--steps", type=int)
    arguments.add_argument("--without", action="append", default=[],
                           choices=PROGRAMS[1:])
    arguments.add_argument("cases", nargs="*", default=[])
    asked = arguments.parse_args()
    steps = {case: asked.steps or own for case, own in handoff.STEPS.items()}
    bandwidth = memcpy_bandwidth()
    summary = [["net", "one process", *PROGRAMS[1:], "over one", "floor",
                "over DDP", "over apart", "MiB exchanged"]]
    details = [["net", "program", "samples/s of each round"]]
    with tempfile.TemporaryDirectory(prefix="sluice-replicas-") as root:
        bench = handoff.Bench(asked.build.resolve(), pathlib.Path(root), steps)
        for case in asked.cases or list(handoff.STEPS):
            measured = Measured(bench, case, asked.without)
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
