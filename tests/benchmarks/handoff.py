#!/usr/bin/env python3
"""Blocks with local heads in two and four processes of one thread each, on
three nets: `sluice run` and a C++ program through the API (handoff_program)
against a hand-off written by hand in PyTorch (handoff_rival.py). The three are
run in turns; printed are medians in samples per second, the medians of the
rounds' ratios over the rival, and all rounds, as Markdown.

usage: handoff.py [--build DIR] [--rounds N] [--methods] [CASE...]

--build: where sluice and handoff_program are (build/release).
--methods: `sluice run` with fully_decoupled over `sluice run` with local_loss
instead, and where the blocks' time goes.
Runs with a Python that has torch.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
STEPS = {"conv": 40, "mlp": 200, "gpt": 60}
BATCH = {"conv": 64, "mlp": 128, "gpt": 12}
HEAD = {"conv": "linear", "mlp": "linear", "gpt": "vocabulary"}
CONFIG = {
    "conv": """
data = {name = "cifar10", root = "ROOT"}
model = {name = "small_conv", channels = [128, 32, 256], hidden = 0, batch_norm = true}
optimizer = {name = "sgd", lr = 0.01, momentum = 0.9}
""",
    "mlp": """
data = {name = "mnist", root = "ROOT"}
model = {name = "mlp", hidden = [1024, 1024, 1024]}
optimizer = {name = "adam", lr = 1e-4}
""",
    "gpt": """
data = {name = "text", file = "ROOT/text", context = 64}
model = {name = "gpt", layers = 4, width = 128, heads = 4}
optimizer = {name = "adamw", lr = 1e-4}
""",
}
CUTS = {
    "conv": {1: "1", 2: "['0', '1-']", 4: "['0', '1', '2', '3']"},
    "mlp": {1: "1", 2: "['0-1', '2-']", 4: "['0', '1', '2', '3']"},
    "gpt": {1: "1", 2: "['0-2', '3-']", 4: "['0-1', '2', '3', '4-']"},
}


def write_noise(root):
    """Files of CIFAR-10's and MNIST's formats and a text, of 2048 samples."""
    (root / "cifar-10-batches-bin").mkdir()
    record = b"".join(bytes([i % 10]) + os.urandom(3072) for i in range(512))
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        (root / "cifar-10-batches-bin" / f"{name}.bin").write_bytes(record)
    (root / "mnist").mkdir()
    sizes = [n.to_bytes(4, "big") for n in (2048, 28, 28)]
    labels = bytes(byte % 10 for byte in os.urandom(2048))
    for split in ("train", "t10k"):
        stem = root / "mnist" / split
        pathlib.Path(f"{stem}-images-idx3-ubyte").write_bytes(
            b"\0\0\x08\x03" + b"".join(sizes) + os.urandom(2048 * 784))
        pathlib.Path(f"{stem}-labels-idx1-ubyte").write_bytes(
            b"\0\0\x08\x01" + sizes[0] + labels)
    (root / "text").write_bytes(bytes(b % 65 for b in os.urandom(1 << 19)))


def output_of(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          **more)
    if done.returncode != 0:
        sys.exit(f"this failed: {' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def records_of(folder):
    with open(folder / "metrics.jsonl") as lines:
        return [json.loads(line) for line in lines]


class Bench:
    def __init__(self, build, root, steps=STEPS, batch=BATCH):
        self.build, self.root = build, root
        self.steps, self.batch = steps, batch
        write_noise(root)

    def rival(self, case, blocks):
        return float(output_of([sys.executable, HERE / "handoff_rival.py", case,
                                str(blocks), str(self.steps[case])]))

    def program(self, case, blocks):
        environment = os.environ | {"HANDOFF_CASE": case,
                                    "HANDOFF_BLOCKS": str(blocks),
                                    "HANDOFF_STEPS": str(self.steps[case])}
        return float(output_of([self.build / "handoff_program",
                                "transport=shared_memory"], env=environment))

    def sluice(self, case, blocks, *overrides):
        """Between the last block's records of the first and the second half."""
        config = self.root / f"{case}.toml"
        config.write_text(CONFIG[case].replace("ROOT", str(self.root)))
        steps, run = self.steps[case], self.root / "run"
        output_of([self.build / "sluice", "run", config, "--dir", run,
                   "--overwrite", f"blocks={CUTS[case][blocks]}",
                   "engine=processes", "transport=shared_memory", "threads=1",
                   f"batch_size={self.batch[case]}", f"turns={2 * steps + 1}",
                   f"log_every={steps}", "evaluate_every=0",
                   *(overrides or
                     ["boundary.policy=local_loss",
                      f"boundary.head.name={HEAD[case]}"])])
        times = {r["turn"]: r["time"] for r in records_of(run)
                 if r["kind"] == "train" and r["block"] == blocks}
        return steps * self.batch[case] / (times[2 * steps] - times[steps])


def table(rows):
    print("| " + " | ".join(rows[0]) + " |")
    print("|" + "---|" * len(rows[0]))
    for row in rows[1:]:
        print("| " + " | ".join(row) + " |", flush=True)


def against_rival(bench, cases, rounds):
    variants = {"rival": bench.rival, "program": bench.program,
                "run": bench.sluice}
    summary = [["net", "blocks", "by hand", "C++ program", "over by hand",
                "`sluice run`", "over by hand", "program over `sluice run`"]]
    details = [["net", "blocks", "variant", "samples/s of each round"]]
    for case in cases:
        for blocks in (2, 4):
            seen = {name: [] for name in variants}
            for _ in range(rounds):
                for name, measure in variants.items():
                    seen[name].append(measure(case, blocks))
            median = {n: statistics.median(v) for n, v in seen.items()}

            def ratio(one, other):
                return f"{statistics.median(a / b for a, b in zip(seen[one], seen[other])):.3f}"

            summary.append([case, str(blocks), f"{median['rival']:.0f}",
                            f"{median['program']:.0f}",
                            ratio("program", "rival"), f"{median['run']:.0f}",
                            ratio("run", "rival"), ratio("program", "run")])
            for name, values in seen.items():
                details.append([case, str(blocks), name,
                                " ".join(f"{v:.0f}" for v in values)])
            print(f"{case} {blocks}: {summary[-1][2:]}", file=sys.stderr)
    table(summary)
    print()
    table(details)


METHODS = {
    "fully_decoupled": ["boundary.policy=fully_decoupled"],
    "fully_decoupled, current": ["boundary.policy=fully_decoupled",
                                 "boundary.weights=current",
                                 "boundary.statistics=forward"],
    "delayed_gradient": ["boundary.policy=delayed_gradient"],
}
PARTS = ("forward_s", "backward_s", "update_s", "learn_s", "waiting_s")


def block_seconds(folder):
    """Per block: what it did with its time, in parts of the run's."""
    shares = []
    for record in records_of(folder):
        if record["kind"] != "block":
            continue
        shares.append(f"{record['block']}: " + ", ".join(
            f"{part[:-2]} {record.get(part, 0):.2f}" for part in PARTS))
    return "; ".join(shares)


def of_methods(bench, cases, rounds):
    rows = [["net", "method", "samples/s", "over local_loss",
             "seconds of the blocks in the last round"]]
    for case in cases:
        seen = {"local_loss": []} | {name: [] for name in METHODS}
        spent = {}
        for _ in range(rounds):
            for name in seen:
                seen[name].append(bench.sluice(case, 2, *METHODS.get(name, [])))
                spent[name] = block_seconds(bench.root / "run")
        for name, values in seen.items():
            over = statistics.median(
                a / b for a, b in zip(values, seen["local_loss"]))
            rows.append([case, name, f"{statistics.median(values):.0f}",
                         f"{over:.3f}", spent[name]])
    table(rows)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--build", type=pathlib.Path,
                           default=HERE.parent.parent / "build" / "release")
    arguments.add_argument("--rounds", type=int, default=11)
    arguments.add_argument("--methods", action="store_true")
    arguments.add_argument("cases", nargs="*", default=[])
    asked = arguments.parse_args()
    cases = asked.cases or list(STEPS)
    with tempfile.TemporaryDirectory(prefix="sluice-handoff-") as root:
        bench = Bench(asked.build.resolve(), pathlib.Path(root))
        (of_methods if asked.methods else against_rival)(bench, cases,
                                                         asked.rounds)


if __name__ == "__main__":
    main()
