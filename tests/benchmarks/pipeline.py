#!/usr/bin/env python3
"""Exact pipelines of two stages in processes of one thread each, on three nets:
`sluice run` against torch.distributed.pipelining with Gloo (pipeline_rival.py),
with the same order and number of micro-batches. The programs are run in turns;
printed are medians in samples per second, the medians of the rounds' ratios,
and all rounds, as Markdown. zb-h1, which has no rival in two stages, is held
against our 1f1b, and both against one block of one thread. Then the best of
each side, by median, are run against each other in turns, and against the same
two cores under DistributedDataParallel (data_parallel_rival.py).

usage: pipeline.py [--build DIR] [--rounds N] [--steps N] [--batches M,M]
                   [--best-rounds N] [--best ORDER:M,ORDER:M] [CASE...]

--build: where sluice is (build/release).
--rounds: of all orders and numbers of micro-batches; default: 3.
--steps: of each measurement; default: each net's own.
--batches: micro-batches of a step; default: 2,4,8.
--best-rounds: of the best of each side; default: 11.
--best: the best of PyTorch's and of ours, known already; only these are run.
Runs with a Python that has torch.
"""
import argparse
import pathlib
import statistics
import sys
import tempfile

import handoff

HERE = pathlib.Path(__file__).resolve().parent
BATCH = handoff.BATCH | {"gpt": 16}  # eight micro-batches divide it
RIVALS = ("gpipe", "1f1b")


class Measured:
    """Samples per second of each program, by round."""

    def __init__(self, bench, case, batches):
        self.bench, self.case, self.batches = bench, case, batches
        self.seen = {}

    def once(self):
        self.note("one block", self.bench.sluice(self.case, 1, "blocks=1"))
        for order in (*RIVALS, "zb-h1"):
            for batches in self.batches:
                if order in RIVALS:
                    self.note((order, batches, "rival"),
                              self.rival(order, batches))
                self.note((order, batches, "sluice"), self.sluice(order, batches))

    def best_of(self, who):
        """Order and number of micro-batches with the greatest median."""
        seen = {what: statistics.median(values)
                for what, values in self.seen.items() if what[2] == who}
        return max(seen, key=seen.get)

    def note(self, what, value):
        self.seen.setdefault(what, []).append(value)

    def rival(self, order, batches):
        command = [sys.executable, HERE / "pipeline_rival.py", self.case, order,
                   str(batches), str(BATCH[self.case]),
                   str(self.bench.steps[self.case])]
        return float(handoff.output_of(command))

    def data_parallel(self):
        command = [sys.executable, HERE / "data_parallel_rival.py", self.case,
                   str(BATCH[self.case]), str(self.bench.steps[self.case])]
        return float(handoff.output_of(command))

    def sluice(self, order, batches):
        return self.bench.sluice(self.case, 2, "boundary.policy=backprop",
                                 f"pipeline.order={order}",
                                 f"pipeline.micro_batches={batches}")

    def median(self, what):
        return f"{statistics.median(self.seen[what]):.0f}"

    def ratio(self, one, other):
        pairs = zip(self.seen[one], self.seen[other])
        return f"{statistics.median(a / b for a, b in pairs):.3f}"

    def rows(self):
        for order in (*RIVALS, "zb-h1"):
            for batches in self.batches:
                ours, rival = ((order, batches, who)
                               for who in ("sluice", "rival"))
                has_rival = rival in self.seen
                yield [self.case, order, str(batches),
                       self.median(rival) if has_rival else "",
                       self.median(ours),
                       self.ratio(ours, rival) if has_rival else "",
                       self.ratio(ours, ("1f1b", batches, "sluice")),
                       self.ratio(ours, "one block")]

    def against_best(self, rival, ours, rounds):
        """A row of the best of each side, and the rounds' speeds beside it."""
        best = Measured(self.bench, self.case, self.batches)
        for _ in range(rounds):
            best.note(rival, best.rival(*rival[:2]))
            best.note(ours, best.sluice(*ours[:2]))
            best.note("DistributedDataParallel", best.data_parallel())
        named = [f"{order}, M = {batches}" for order, batches, _ in (rival, ours)]
        return [self.case, named[0], best.median(rival), named[1],
                best.median(ours), best.ratio(ours, rival),
                best.median("DistributedDataParallel"),
                best.ratio(ours, "DistributedDataParallel")], best

    def details(self):
        for what, values in self.seen.items():
            name = what if isinstance(what, str) else " ".join(map(str, what))
            yield [self.case, name, " ".join(f"{v:.0f}" for v in values)]


def named_best(text):
    """The rival's and ours, of "1f1b:4,zb-h1:2"."""
    rival, ours = (one.split(":") for one in text.split(","))
    if rival[0] not in RIVALS:
        raise ValueError(f"PyTorch has {RIVALS}")
    return [(order, int(batches), who)
            for (order, batches), who in ((rival, "rival"), (ours, "sluice"))]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--build", type=pathlib.Path,
                           default=HERE.parent.parent / "build" / "release")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--best-rounds", type=int, default=11)
    arguments.add_argument("--best", type=named_best)
    arguments.add_argument("--steps", type=int)
    arguments.add_argument(
        "--batches", default=[2, 4, 8],
        type=lambda text: [int(number) for number in text.split(",")])
    arguments.add_argument("cases", nargs="*", default=[])
    asked = arguments.parse_args()
    steps = {case: asked.steps or own for case, own in handoff.STEPS.items()}
    summary = [["net", "order", "M", "PyTorch", "`sluice run`", "over PyTorch",
                "over our 1f1b", "over one block"]]
    best = [["net", "best of PyTorch", "samples/s", "best of `sluice run`",
             "samples/s", "over PyTorch", "DistributedDataParallel",
             "over it"]]
    details = [["net", "program", "samples/s of each round"]]
    with tempfile.TemporaryDirectory(prefix="sluice-pipeline-") as root:
        bench = handoff.Bench(asked.build.resolve(), pathlib.Path(root), steps,
                              BATCH)
        for case in asked.cases or list(handoff.STEPS):
            measured = Measured(bench, case, asked.batches)
            if not asked.best:
                for _ in range(asked.rounds):
                    measured.once()
                summary.extend(measured.rows())
                details.extend(measured.details())
            row, rounds = measured.against_best(
                *(asked.best or map(measured.best_of, ("rival", "sluice"))),
                asked.best_rounds)
            best.append(row)
            details.extend(rounds.details())
    for rows in (summary, best, details):
        if len(rows) > 1:
            handoff.table(rows)
            print()


if __name__ == "__main__":
    main()
