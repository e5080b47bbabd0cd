#!/usr/bin/env python3
"""Exact pipelines of two stages in processes of one thread each, on three nets:
`sluice run` against torch.distributed.pipelining with Gloo (pipeline_rival.py),
with the same order and number of micro-batches. The programs are run in turns;
printed are medians in samples per second, the medians of the rounds' ratios,
and all rounds, as Markdown. zb-h1, which has no rival in two stages, is held
against our 1f1b, and both against one block of one thread.

usage: pipeline.py [--build DIR] [--rounds N] [--steps N] [--batches M,M]
                   [CASE...]

--build: where sluice is (build/release).
--steps: of each measurement; default: each net's own.
--batches: micro-batches of a step; default: 2,4,8.
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

    def note(self, what, value):
        self.seen.setdefault(what, []).append(value)

    def rival(self, order, batches):
        command = [sys.executable, HERE / "pipeline_rival.py", self.case, order,
                   str(batches), str(BATCH[self.case]),
                   str(self.bench.steps[self.case])]
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

    def details(self):
        for what, values in self.seen.items():
            name = what if isinstance(what, str) else " ".join(map(str, what))
            yield [self.case, name, " ".join(f"{v:.0f}" for v in values)]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--build", type=pathlib.Path,
                           default=HERE.parent.parent / "build" / "release")
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--steps", type=int)
    arguments.add_argument(
        "--batches", default=[2, 4, 8],
        type=lambda text: [int(number) for number in text.split(",")])
    arguments.add_argument("cases", nargs="*", default=[])
    asked = arguments.parse_args()
    steps = {case: asked.steps or own for case, own in handoff.STEPS.items()}
    summary = [["net", "order", "M", "PyTorch", "`sluice run`", "over PyTorch",
                "over our 1f1b", "over one block"]]
    details = [["net", "program", "samples/s of each round"]]
    with tempfile.TemporaryDirectory(prefix="sluice-pipeline-") as root:
        bench = handoff.Bench(asked.build.resolve(), pathlib.Path(root), steps,
                              BATCH)
        for case in asked.cases or list(handoff.STEPS):
            measured = Measured(bench, case, asked.batches)
            for _ in range(asked.rounds):
                measured.once()
            summary.extend(measured.rows())
            details.extend(measured.details())
    handoff.table(summary)
    print()
    handoff.table(details)


if __name__ == "__main__":
    main()
