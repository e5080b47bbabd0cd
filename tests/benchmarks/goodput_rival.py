#!/usr/bin/env python3
"""Goodput of other people's programs beside Sluice's, with the net, the batch
size, the number of samples and the times of kills and joins of goodput.py:

- torchft: synchronous replicas. When one dies, the others drop the step that is
  under way and go on in a smaller quorum; one that joins takes the weights of
  another. A lighthouse (in the first replica's process) watches over them, and
  gradients travel by Gloo in one bucket.
- hivemind: peers that update weights of their own (use_local_updates) and
  average them in the background each time all of them together have trained on
  256 batches (at the default --slow).
- hivemind, synchronous: gradients of as many make one update (its default).

Killed are all processes of a replica, but never those of the first; a new
process joins after --every seconds. Goodput is batches applied per second over
those of the run left alone. A batch is lost if it was begun and then not
applied: by a kill, in a dropped step, or since the last average when a peer out
of sync takes the weights of others (as torchft's should_commit() and hivemind's
log say). Sluice's records don't tell: those of a killed replica end early. A
batch sleeps --slow - 1 times what forward and backward took: of the
thread's CPU time in rivals, and of time on the clock in Sluice, which slows its
update too. The rivals' samples are noise. The programs run in turns. Prints
Markdown tables: medians, then all rounds.

    python3.11 -m venv V/torchft
    V/torchft/bin/pip install torch==2.13.0 numpy torchft-nightly==2026.10.26
    python3.11 -m venv V/hivemind
    V/hivemind/bin/pip install torch==2.13.0 hivemind==1.1.12
    goodput_rival.py --venvs V --rounds 3

usage: goodput_rival.py [--build DIR] [--venvs DIR] [--every S] [--seconds S]
                        [--slow N] [--rounds N] [NAME...]

--build: where sluice is (build/release).
--venvs: the folder with the environments above.
--every: seconds from one event, a kill or a join, to the next; default: 5.
--seconds: length of a run that is left alone, about; default: 60.
--slow: how many times as long as it computes a batch takes; default: 20.
--rounds: default: 1.
NAME: a row; default: all of goodput.py and all above.
"""
import argparse
import json
import logging
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from datetime import timedelta

import goodput
from goodput import REPLICAS

CONFIG = tomllib.loads(goodput.CONFIG)
BATCH = CONFIG["batch_size"]
RIVALS = {  # environment, settings
    "torchft": ("torchft", {}),
    "hivemind": ("hivemind", {"use_local_updates": True}),
    "hivemind, synchronous": ("hivemind", {"use_local_updates": False}),
}
SLOW = int(re.search(r"x(\d+)", goodput.SLOW)[1])


def hivemind_batches(slow):
    """From one average to the next, of all peers: about three seconds."""
    return 256 * SLOW // slow


class Book:
    """Batches of one peer. Each line of its file says how many were begun, and
    how many of these are lost if the peer dies now, or already are."""

    def __init__(self, path):
        self.file = open(path, "w", buffering=1)
        self.begun = self.fresh = self.offered = self.lost = 0

    def begin(self):
        self.begun += 1
        self.fresh += 1
        self.write()

    def write(self):
        self.file.write(json.dumps({
            "time": time.monotonic(), "begun": self.begun, "lost": self.lost,
            "at_risk": self.fresh + self.offered}) + "\n")

    def offer(self):
        self.offered += self.fresh
        self.fresh = 0

    def apply_offered(self):
        self.offered = 0

    def apply_all(self):
        self.fresh = self.offered = 0

    def drop(self):
        self.lost += self.fresh + self.offered
        self.apply_all()


class Address:
    """Of the first replica's server, for all others."""

    def __init__(self, folder):
        self.path = folder / "address"

    def publish(self, address):
        self.path.with_suffix(".new").write_text(address)
        self.path.with_suffix(".new").rename(self.path)

    def wait(self):
        while not self.path.exists():
            time.sleep(0.02)
        return self.path.read_text()


class Torchft:
    HEARTBEAT, TIMEOUT = timedelta(milliseconds=100), timedelta(seconds=10)

    def __init__(self, net, seat, address, book, _slow):
        import torch
        from torch.distributed import TCPStore
        from torchft import Manager, ProcessGroupGloo
        from torchft.coordination import LighthouseServer
        self.book = book
        if seat == 1:
            self.lighthouse = LighthouseServer(
                bind="[::]:0", min_replicas=1, join_timeout_ms=1000,
                quorum_tick_ms=10, heartbeat_timeout_ms=500)
            address.publish(self.lighthouse.address())
        self.store = TCPStore("localhost", 0, is_master=True,
                              wait_for_workers=False)
        self.optimizer = torch.optim.SGD(net.parameters(),
                                         CONFIG["optimizer"]["lr"], fused=True)
        weights = list(net.parameters())
        self.gradients = torch.zeros(sum(w.numel() for w in weights))
        parts = self.gradients.split([w.numel() for w in weights])
        for weight, part in zip(weights, parts):
            weight.grad = part.view_as(weight)

        def load(state):
            net.load_state_dict(state["net"])
            self.optimizer.load_state_dict(state["optimizer"])

        self.manager = Manager(
            pg=ProcessGroupGloo(timeout=self.TIMEOUT), load_state_dict=load,
            state_dict=lambda: {"net": net.state_dict(),
                                "optimizer": self.optimizer.state_dict()},
            min_replica_size=1, timeout=self.TIMEOUT,
            quorum_timeout=self.TIMEOUT, connect_timeout=self.TIMEOUT, rank=0,
            world_size=1, store_addr="localhost", store_port=self.store.port,
            lighthouse_addr=address.wait(), replica_id=f"replica_{seat}_",
            hostname="localhost", heartbeat_interval=self.HEARTBEAT,
            init_sync=False)

    def begin(self):
        self.manager.start_quorum()
        self.gradients.zero_()

    def update(self):
        self.manager.allreduce(self.gradients).wait()
        taken_in = self.manager.is_participating()
        if self.manager.should_commit():
            self.optimizer.step()
            if taken_in:
                self.book.apply_all()
        self.book.drop()

    def batches(self):
        return self.manager.batches_committed()


class Hivemind:
    def __init__(self, net, seat, address, book, slow, use_local_updates):
        import hivemind
        import torch
        self.book, self.target = book, hivemind_batches(slow)
        others = [] if seat == 1 else address.wait().split()
        self.dht = hivemind.DHT(initial_peers=others, start=True)
        if seat == 1:
            address.publish(" ".join(map(str, self.dht.get_visible_maddrs())))
        handler = logging.Handler()
        handler.emit = self.follow
        logging.getLogger("hivemind.optim").addHandler(handler)
        self.optimizer = hivemind.Optimizer(
            dht=self.dht, run_id="goodput", params=net.parameters(),
            optimizer=lambda weights: torch.optim.SGD(
                weights, CONFIG["optimizer"]["lr"]),
            batch_size_per_step=BATCH,
            target_batch_size=self.target * BATCH,
            use_local_updates=use_local_updates, matchmaking_time=1.0,
            averaging_timeout=5.0, allreduce_timeout=3.0,
            next_chunk_timeout=1.0, load_state_timeout=5.0,
            averager_opts={"request_timeout": 0.5},
            tracker_opts={"min_refresh_period": 0.1, "max_refresh_period": 1.0,
                          "default_refresh_period": 0.5,
                          "metadata_expiration": 5.0},
            verbose=True)

    def follow(self, record):
        said = record.getMessage()
        if said.startswith("Averaged gradients"):
            self.book.apply_all()
        elif said.startswith("Averaged parameters"):
            self.book.apply_offered()
        elif said.startswith("Peer is out of sync"):
            self.book.drop()

    def begin(self):
        self.optimizer.zero_grad()

    def update(self):
        epoch = self.optimizer.local_epoch
        self.optimizer.step()
        if self.optimizer.local_epoch != epoch:
            self.book.offer()

    def batches(self):
        return self.optimizer.local_epoch * self.target


def mlp():
    import torch
    from torch import nn
    torch.manual_seed(1)
    widths = [28 * 28, *CONFIG["model"]["hidden"]]
    layers = [nn.Flatten()]
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 10))


def train(name, folder, slow, seat, number, batches):
    """The process of one replica: up to so many batches of all of them."""
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(1)
    net = mlp()
    images = torch.randn(CONFIG["data"]["train"], 1, 28, 28)
    labels = torch.randint(10, (len(images),))
    torch.manual_seed(number)
    book = Book(folder / f"{number}.jsonl")
    environment, settings = RIVALS[name]
    make = {"torchft": Torchft, "hivemind": Hivemind}[environment]
    rival = make(net, seat, Address(folder), book, slow, **settings)
    (folder / f"{number}.ready").touch()
    while not (folder / "go").exists():
        time.sleep(0.02)
    while rival.batches() < batches:
        chosen = torch.randint(len(images), (BATCH,))
        book.begin()
        rival.begin()
        start = time.thread_time()
        F.cross_entropy(net(images[chosen]), labels[chosen]).backward()
        time.sleep((slow - 1) * (time.thread_time() - start))
        rival.update()
    book.write()
    os._exit(0)  # the others may have left


class Swarm:
    """Replicas in processes, each with a process group of its own."""

    def __init__(self, name, python, folder, slow, batches):
        self.name, self.python, self.folder = name, python, folder
        self.slow, self.batches = slow, batches
        self.peers, self.number = {}, 0
        folder.mkdir()

    def start(self, seat):
        self.number += 1
        self.peers[seat] = subprocess.Popen(
            [self.python, __file__, "peer", self.name, self.folder,
             *map(str, (self.slow, seat, self.number, self.batches))],
            process_group=0,
            stdout=open(self.folder / f"{self.number}.txt", "w"),
            stderr=subprocess.STDOUT)

    def kill(self, seat):
        peer = self.peers.pop(seat)
        os.killpg(peer.pid, signal.SIGKILL)
        peer.wait()

    def is_over(self):
        return self.peers[1].poll() is not None

    def go(self):
        for seat in range(1, REPLICAS + 1):
            self.start(seat)
        deadline = time.monotonic() + 120
        while len(list(self.folder.glob("*.ready"))) < REPLICAS:
            if self.is_over() or time.monotonic() > deadline:
                sys.exit((self.folder / "1.txt").read_text())
            time.sleep(0.05)
        (self.folder / "go").touch()

    def end(self):
        for seat in list(self.peers):
            try:
                self.kill(seat)
            except ProcessLookupError:
                pass

    def lines(self, number):
        path = self.folder / f"{number}.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(True)
                if line.endswith("\n")]


def disturb(swarm, every, limit):
    """Kills and starts replicas at goodput.py's times, with its draws. Returns
    the numbers of those killed, and how many joined."""
    killed, joins, is_kill, draw = [], 0, True, random.Random(1)
    numbers = {seat: seat for seat in swarm.peers}
    began = time.monotonic()
    at = began + (every or 1e9)
    while not swarm.is_over():
        time.sleep(0.02)
        if time.monotonic() > began + limit:
            break
        if time.monotonic() < at:
            continue
        at += every
        seats = [seat for seat in swarm.peers if seat > 1]
        if is_kill and seats:
            seat = draw.choice(seats)
            killed.append(numbers.pop(seat))
            swarm.kill(seat)
        else:
            free = set(range(2, REPLICAS + 1)) - set(swarm.peers)
            if free:
                seat = min(free)
                swarm.start(seat)
                numbers[seat] = swarm.number
                joins += 1
        is_kill = not is_kill
    return killed, joins


def measure_rival(name, python, root, slow, batches, every=None, limit=300):
    swarm = Swarm(name, python, root / f"{time.monotonic_ns()}", slow, batches)
    try:
        swarm.go()
        killed, joins = disturb(swarm, every, limit)
    finally:
        swarm.end()
    first = swarm.lines(1)
    begun = lost = 0
    for number in range(1, swarm.number + 1):
        for last in swarm.lines(number)[-1:]:
            begun += last["begun"]
            lost += last["lost"] + (last["at_risk"] if number in killed else 0)
    seconds = first[-1]["time"] - first[0]["time"]
    if swarm.peers.get(1) or seconds > limit:
        print(f"{name}: ended after {seconds:.0f} s", file=sys.stderr)
    return {"seconds": seconds, "applied": begun - lost, "lost": lost,
            "kills": len(killed), "joins": joins}


def measure_sluice(runs, settings, every=None):
    result = runs.measure("run", settings, every)
    newest = max(runs.root.glob("run-*[0-9].txt"))
    if "Stopped after" in newest.read_text():
        sys.exit(f"a signal stopped {newest}")
    return {**result, "applied": runs.turns * REPLICAS, "lost": None}


class Row:
    def __init__(self, name, asked, root):
        self.name, self.asked = name, asked
        self.rounds = []
        if name in RIVALS:
            python = asked.venvs.resolve() / RIVALS[name][0] / "bin/python"
            enough = (2 * hivemind_batches(asked.slow) if "hivemind" in name
                      else 160)
            self.batches = enough
            self.measure = lambda *every: measure_rival(
                name, python, root, asked.slow, self.batches, *every)
            probe = self.measure()
            self.batches = max(enough, round(
                asked.seconds * probe["applied"] / probe["seconds"]))
        else:
            runs = goodput.Runs(asked.build.resolve() / "sluice", root, 40)
            settings = goodput.POLICIES[name]
            self.measure = lambda *every: measure_sluice(runs, settings, *every)
            probe = self.measure()
            runs.turns = max(40, int(40 * asked.seconds / probe["seconds"]))

    def once(self):
        load = os.getloadavg()[0]
        self.rounds.append((self.measure(), self.measure(self.asked.every),
                            load))
        print(self.name, *self.rounds[-1], file=sys.stderr, flush=True)

    @staticmethod
    def rate(run):
        return run["applied"] / run["seconds"]

    def goodputs(self):
        return [self.rate(d) / self.rate(a) for a, d, _ in self.rounds]

    def summary(self):
        alone, disturbed, _ = zip(*self.rounds)

        def median(runs, what):
            return statistics.median(map(what, runs))

        def rows_lost(runs):
            if None in (run["lost"] for run in runs):
                return "-"
            return f"{median(runs, lambda run: run['lost'] * BATCH):.0f}"

        def seconds(run):
            return run["seconds"]

        return [self.name, f"{median(alone, seconds):.1f}",
                f"{median(alone, self.rate):.0f}",
                f"{median(disturbed, seconds):.1f}",
                f"{median(disturbed, self.rate):.0f}",
                rows_lost(alone), rows_lost(disturbed),
                f"{statistics.median(self.goodputs()):.2f}",
                str(disturbed[-1]["kills"]), str(disturbed[-1]["joins"]),
                str(disturbed[-1].get("restarts", 0))]

    def details(self):
        return [self.name, " ".join(f"{g:.2f}" for g in self.goodputs()),
                " ".join(str(d["lost"]) for _, d, _ in self.rounds),
                " ".join(f"{load:.1f}" for _, _, load in self.rounds)]


def table(rows):
    for n, row in enumerate(rows):
        print("| " + " | ".join(row) + " |")
        if n == 0:
            print("|" + "---|" * len(row))
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path,
                        default=pathlib.Path("build/release"))
    parser.add_argument("--venvs", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--every", type=float, default=5)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--slow", type=int, default=SLOW)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("names", nargs="*",
                        default=[*goodput.POLICIES, *RIVALS])
    asked = parser.parse_args()
    goodput.SLOW = goodput.SLOW.replace(f"x{SLOW}", f"x{asked.slow}")
    with tempfile.TemporaryDirectory() as root:
        rows = [Row(name, asked, pathlib.Path(root)) for name in asked.names]
        for _ in range(asked.rounds):
            for row in rows:
                row.once()
    table([["program", "left alone, s", "batches/s", "disturbed, s",
            "batches/s", "rows lost alone", "rows lost", "goodput", "kills",
            "joins", "restarts"], *(row.summary() for row in rows)])
    table([["program", "goodput of each round", "batches lost", "load before"],
           *(row.details() for row in rows)])


if __name__ == "__main__":
    if sys.argv[1:2] == ["peer"]:
        train(sys.argv[2], pathlib.Path(sys.argv[3]), *map(int, sys.argv[4:8]))
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        main()
