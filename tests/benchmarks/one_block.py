#!/usr/bin/env python3
"""One block, trained by back-propagation in one process: `sluice run` over a
tuned loop in PyTorch (one_block_rival.py) with the same number of threads, on
five nets. The two take turns, and take them in turns: who begins a round ends
the next one. Printed are medians in samples per second, the median of the
rounds' ratios ours / theirs (the aim is 0.96) with its quartiles, and all
rounds, as Markdown.

usage: one_block.py [--build DIR] [--rounds N] [--threads N]... [--steps N]
                    [--compiled] [CASE...]

--build: where sluice is (build/release).
--rounds: default: 11.
--threads: default: 1 and all cores.
--steps: of each measurement; default: each net's own. As many others go before.
--compiled: against the loop with its network compiled by torch.compile.
Runs with a Python that has torch, and the LibTorch of the build.
"""
import argparse
import os
import pathlib
import statistics
import sys
import tempfile

import handoff

HERE = pathlib.Path(__file__).resolve().parent
STEPS = {"conv": 40, "resnet18": 6, "resnet50": 5, "vit": 20, "gpt": 40}
BATCH = {"conv": 64, "resnet18": 32, "resnet50": 16, "vit": 32, "gpt": 16}
CONFIG = {
    "conv": """
data = {name = "cifar10", root = "ROOT"}
model = {name = "small_conv", channels = [128, 32, 256], hidden = 0, batch_norm = true}
optimizer = {name = "sgd", lr = 0.01, momentum = 0.9}
""",
    "resnet18": """
data = {name = "cifar10", root = "ROOT"}
model = {name = "resnet18"}
optimizer = {name = "sgd", lr = 0.01, momentum = 0.9, nesterov = true, weight_decay = 5e-4}
""",
    "resnet50": """
data = {name = "cifar10", root = "ROOT"}
model = {name = "resnet50"}
optimizer = {name = "sgd", lr = 0.01, momentum = 0.9, nesterov = true, weight_decay = 5e-4}
""",
    "vit": """
data = {name = "cifar10", root = "ROOT"}
model = {name = "vit", patch = 4, layers = 6, width = 192, heads = 3}
optimizer = {name = "adamw", lr = 1e-4, weight_decay = 0.05}
""",
    "gpt": """
data = {name = "text", file = "ROOT/text", context = 64}
model = {name = "gpt", layers = 4, width = 128, heads = 4}
optimizer = {name = "adamw", lr = 1e-4, weight_decay = 0.01}
""",
}


class Bench:
    def __init__(self, build, root, steps, compiled):
        self.build, self.root, self.steps = build, root, steps
        self.compiled = ["compiled"] if compiled else []
        handoff.write_noise(root)

    def theirs(self, case, threads):
        return float(handoff.output_of(
            [sys.executable, HERE / "one_block_rival.py", case, str(threads),
             str(self.steps[case]), *self.compiled]))

    def ours(self, case, threads):
        """Between the records of the first and the second half. Batches are made
        by the thread that trains, as theirs are."""
        config, run = self.root / f"{case}.toml", self.root / "run"
        config.write_text(CONFIG[case].replace("ROOT", str(self.root)))
        steps = self.steps[case]
        handoff.output_of(
            [self.build / "sluice", "run", config, "--dir", run, "--overwrite",
             "blocks=1", "engine=virtual", f"threads={threads}",
             "data.prefetch=0", f"batch_size={BATCH[case]}",
             f"turns={2 * steps + 1}", f"log_every={steps}",
             "evaluate_every=0", "limit.evaluation=1"])
        times = {r["turn"]: r["time"] for r in handoff.records_of(run)
                 if r["kind"] == "train"}
        return steps * BATCH[case] / (times[2 * steps] - times[steps])


def measured(bench, case, threads, rounds):
    """name -> samples/s of each round."""
    seen = {"ours": [], "theirs": []}
    for number in range(rounds):
        names = list(seen) if number % 2 == 0 else list(reversed(seen))
        for name in names:
            seen[name].append(getattr(bench, name)(case, threads))
        print(case, threads, *(f"{name} {seen[name][-1]:.0f}" for name in seen),
              file=sys.stderr, flush=True)
    return seen


def ratio_text(seen):
    ratios = [a / b for a, b in zip(seen["ours"], seen["theirs"])]
    text = f"{statistics.median(ratios):.3f}"
    if len(ratios) > 1:
        low, _, high = statistics.quantiles(ratios, method="inclusive")
        text += f" ({low:.3f} to {high:.3f})"
    return text


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path,
                        default=HERE.parent.parent / "build" / "release")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--threads", type=int, action="append")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("cases", nargs="*", default=[])
    asked = parser.parse_args()
    unknown = set(asked.cases) - set(STEPS)
    if unknown:
        parser.error(f"no case {unknown.pop()}; there are: {', '.join(STEPS)}")
    cores = len(os.sched_getaffinity(0))
    steps = {case: asked.steps or own for case, own in STEPS.items()}
    summary = [["net", "threads", "PyTorch", "`sluice run`", "ours / theirs"]]
    details = [["net", "threads", "program", "samples/s of each round"]]
    with tempfile.TemporaryDirectory(prefix="sluice-one-block-") as root:
        bench = Bench(asked.build.resolve(), pathlib.Path(root), steps,
                      asked.compiled)
        for case in asked.cases or STEPS:
            for threads in asked.threads or sorted({1, cores}):
                seen = measured(bench, case, threads, asked.rounds)
                summary.append(
                    [case, str(threads),
                     *(f"{statistics.median(seen[name]):.0f}"
                       for name in ("theirs", "ours")), ratio_text(seen)])
                details.extend([case, str(threads), name,
                                " ".join(f"{v:.0f}" for v in values)]
                               for name, values in seen.items())
    handoff.table(summary)
    print()
    handoff.table(details)


if __name__ == "__main__":
    main()
