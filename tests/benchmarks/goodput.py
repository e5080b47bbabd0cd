#!/usr/bin/env python3
"""Goodput of replicas that are killed and come again: the time of a run beside
that of the same run left alone. Every few seconds a process of a replica, but
the first, is killed (SIGKILL), and as long after that another replica joins,
with asynchronous policies (`sluice join`); all_reduce, where each waits for
all, begins again by itself, at its last checkpoint (on_failure = "restart").
Each block sleeps most of the time (--inject "slow"), so that the cores are
enough for all. Both runs train on the same number of batches. Prints a Markdown
table.

usage: goodput.py [--build DIR] [--every S] [--seconds S] [--rounds N] [POLICY...]

--build: where sluice is (build/release).
--every: seconds from one event, a kill or a join, to the next; default: 5.
--seconds: length of a run that is left alone, about; default: 60.
--rounds: default: 1.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

CONFIG = """
name = "goodput"
blocks = 1
batch_size = 64
engine = "processes"
threads = 1
evaluate_every = 0
checkpoint = {every_turns = 20}
data = {train = 6400}
model = {hidden = [256, 256]}
optimizer = {name = "sgd", lr = 0.02}
"""
REPLICAS = 4
FREE = ["schedule=free"]
POLICIES = {
    "server": [*FREE, "replicas.policy=server"],
    "elastic": [*FREE, "replicas.policy=elastic", "replicas.one_by_one=true",
                "replicas.every=4"],
    "average, quorum 2": [*FREE, "replicas.policy=average", "replicas.every=4",
                          "replicas.quorum=2"],
    "all_reduce": ["on_failure=restart", "restarts=1000"],
}
SLOW = "; ".join(f"slow block {k} x20" for k in range(1, REPLICAS + 1))


def records_of(folder):
    try:
        with open(folder / "metrics.jsonl") as lines:
            return [json.loads(line) for line in lines if line.endswith("\n")]
    except OSError:
        return []


class Runs:
    def __init__(self, program, root, turns):
        self.program, self.root, self.turns = program, root, turns
        (root / "config.toml").write_text(CONFIG)

    def start(self, folder, settings):
        return subprocess.Popen(
            [self.program, "run", self.root / "config.toml", "--dir", folder,
             "--inject", SLOW, f"turns={self.turns}",
             f"replicas.count={REPLICAS}", *settings],
            stdout=open(f"{folder}.txt", "w"), stderr=subprocess.STDOUT)

    def join(self, folder):
        return subprocess.Popen(
            [self.program, "join", folder, "--wait", "30", "--inject", SLOW],
            stdout=open(f"{folder}.join.txt", "a"), stderr=subprocess.STDOUT)

    @staticmethod
    def workers(folder):
        found = subprocess.run(["pgrep", "-f", f"worker --dir {folder} "],
                               capture_output=True, text=True).stdout.split()
        seats = {}
        for pid in found:
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_text()
            except OSError:
                continue
            words = words.split("\0")
            if "--block" in words:
                seats[int(words[words.index("--block") + 1])] = int(pid)
        return seats

    def measure(self, name, settings, every=None):
        """Seconds from the first record to the last, and what happened."""
        folder = self.root / f"{name}-{time.monotonic_ns()}"
        run, joining, kills = self.start(folder, settings), [], 0
        is_kill, draw = True, random.Random(1)
        while not any(r["kind"] == "train" for r in records_of(folder)):
            if run.poll() is not None:
                sys.exit(pathlib.Path(f"{folder}.txt").read_text())
            time.sleep(0.05)
        began = time.monotonic()
        at = began + (every or 1e9)
        while run.poll() is None:
            time.sleep(0.02)
            if time.monotonic() < at:
                continue
            at += every
            seats = [pid for seat, pid in self.workers(folder).items()
                     if seat > 1]
            if is_kill and seats:
                subprocess.run(["kill", "-KILL", str(draw.choice(seats))])
                kills += 1
            elif "schedule=free" in settings:
                joining.append(self.join(folder))
            is_kill = not is_kill
        seconds = time.monotonic() - began
        for each in joining:
            each.wait()
        if run.returncode != 0:
            sys.exit(pathlib.Path(f"{folder}.txt").read_text())
        kinds = [r["kind"] for r in records_of(folder)]
        return {"seconds": seconds, "kills": kills,
                "joins": kinds.count("joined_replica"),
                "restarts": kinds.count("restart")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--every", type=float, default=5)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("policies", nargs="*", default=list(POLICIES))
    asked = parser.parse_args()
    program = pathlib.Path(asked.build).resolve() / "sluice"
    print("| policy | left alone, s | disturbed, s | goodput | kills | joins | "
          "restarts |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        probe = Runs(program, root, 40)
        seconds = probe.measure("probe", POLICIES["all_reduce"])["seconds"]
        runs = Runs(program, root, max(40, int(40 * asked.seconds / seconds)))
        for name in asked.policies:
            rounds = [(runs.measure("alone", POLICIES[name]),
                       runs.measure("disturbed", POLICIES[name], asked.every))
                      for _ in range(asked.rounds)]
            alone = statistics.median(a["seconds"] for a, _ in rounds)
            disturbed = statistics.median(d["seconds"] for _, d in rounds)
            goodput = statistics.median(a["seconds"] / d["seconds"]
                                        for a, d in rounds)
            last = rounds[-1][1]
            print(f"| {name} | {alone:.1f} | {disturbed:.1f} | {goodput:.2f} | "
                  f"{last['kills']} | {last['joins']} | {last['restarts']} |",
                  flush=True)


if __name__ == "__main__":
    main()
