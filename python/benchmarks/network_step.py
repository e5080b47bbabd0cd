"""What Network.step() takes from Python, over the C++ program of the same net.

usage: SLUICE_NETWORK_ORACLE=build/release/network_oracle \\
       python network_step.py [--engine virtual] [--rounds 5] [--turns 300]
                              [--width 1024] [--batch 64] [--policy local_loss]

Both train the same batches in turns, round by round; the last line is the
median of the ratios of their speeds, Python's over the program's. Fails when
they don't compute the same losses.
"""
import argparse
import functools
import os
import statistics
import subprocess
import tempfile
import time

import safetensors.torch
import torch
from torch import nn

import sluice

OPTIMIZER = "sgd, lr = 0.01"


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", default="virtual")
    parser.add_argument("--policy", default="local_loss")
    for name, value in {"rounds": 5, "turns": 300, "width": 1024,
                        "batch": 64}.items():
        parser.add_argument("--" + name, type=int, default=value)
    return parser.parse_args()


def layers(width):
    return [functools.partial(nn.Linear, 784, width), nn.ReLU,
            functools.partial(nn.Linear, width, width), nn.ReLU,
            functools.partial(nn.Linear, width, 10)]


def of_python(said, initial, x, y):
    with sluice.Network(layers(said.width), x[0][:1], cuts=[2, 4],
                        boundaries=said.policy, optimizer=OPTIMIZER,
                        engine=said.engine, threads=1, seed=3) as net:
        net.load(initial)
        steps = []
        for turn in range(len(x)):
            if turn == len(x) // 10:
                if steps:
                    steps[-1].loss()
                begin = time.perf_counter()
            steps.append(net.step(x[turn], y[turn]))
        losses = [f"{step.loss():.17g}" for step in steps]
        return time.perf_counter() - begin, losses


def of_program(said, folder, initial):
    done = subprocess.run(
        [os.environ["SLUICE_NETWORK_ORACLE"], f"{folder}/batches", initial,
         f"{folder}/weights", said.policy, OPTIMIZER, f"engine={said.engine}"],
        text=True, check=True, capture_output=True)
    return float(done.stderr.split()[-1]), done.stdout.split()


def main():
    said = options()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    x = torch.randn(said.turns, said.batch, 784)
    y = torch.randint(10, (said.turns, said.batch))
    with tempfile.TemporaryDirectory() as folder:
        initial = f"{folder}/initial"
        safetensors.torch.save_file(
            {f"layers.{i}.{name}": tensor
             for i, make in enumerate(layers(said.width))
             for name, tensor in make().state_dict().items()}, initial)
        safetensors.torch.save_file({"x": x, "y": y}, f"{folder}/batches")
        ratios = []
        for _ in range(said.rounds):
            python, losses = of_python(said, initial, x, y)
            program, expected = of_program(said, folder, initial)
            assert losses == expected, "other losses than the program's"
            ratios.append(program / python)
            print(f"python {python:.3f} s, program {program:.3f} s: "
                  f"{ratios[-1]:.3f}", flush=True)
        print(f"median {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
