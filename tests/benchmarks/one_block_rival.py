#!/usr/bin/env python3
"""A tuned training loop in PyTorch: maps in channels-last order, a fused
optimizer, malloc tuned to keep its memory, and batches gathered from tensors
that are normalised and in memory. Prints samples per second of STEPS steps
after as many others.

usage: one_block_rival.py conv|resnet18|gpt THREADS STEPS
"""
import pathlib
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

import handoff_rival
from handoff_rival import CONTEXT, VOCABULARY

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "python/examples"
SAMPLES = 2048


def resnet18():
    sys.path.insert(0, str(EXAMPLES))
    from residual_network import resnet18 as make
    return make(10)


CASES = {  # network, batch size, optimizer
    "conv": (lambda: nn.Sequential(*handoff_rival.conv_layers()), 64,
             lambda w: torch.optim.SGD(w, 0.01, momentum=0.9, fused=True)),
    "resnet18": (resnet18, 32,
                 lambda w: torch.optim.SGD(w, 0.01, momentum=0.9, nesterov=True,
                                           weight_decay=5e-4, fused=True)),
    "gpt": (lambda: nn.Sequential(*handoff_rival.gpt_layers()), 16,
            lambda w: torch.optim.AdamW(w, 1e-4, weight_decay=0.01,
                                        fused=True)),
}


class Images:
    """Stored pixel by pixel, so that a gathered batch is in channels-last
    order."""

    def __init__(self):
        self.inputs = torch.randn(SAMPLES, 32, 32, 3)
        self.labels = torch.randint(10, (SAMPLES,))

    def batch(self, chosen):
        return self.inputs[chosen].permute(0, 3, 1, 2), self.labels[chosen]


class Texts:
    """Windows of one text."""

    def __init__(self):
        self.tokens = torch.randint(VOCABULARY, (SAMPLES * CONTEXT + 1,))
        self.window = torch.arange(CONTEXT + 1)

    def batch(self, chosen):
        texts = self.tokens[chosen[:, None] * CONTEXT + self.window]
        return texts[:, :-1], texts[:, 1:]


def orders(batch_size):
    """Endless."""
    while True:
        for chosen in torch.randperm(SAMPLES).split(batch_size):
            if len(chosen) == batch_size:
                yield chosen


def main(case, threads, steps):
    torch.set_num_threads(threads)
    handoff_rival.keep_memory()
    torch.manual_seed(1)
    make, batch_size, optimizer_of = CASES[case]
    data = Texts() if case == "gpt" else Images()
    net = make().to(memory_format=torch.channels_last)
    optimizer = optimizer_of(net.parameters())
    order = orders(batch_size)
    for step in range(2 * steps):
        if step == steps:
            start = time.monotonic()
        inputs, labels = data.batch(next(order))
        loss = F.cross_entropy(net(inputs).flatten(0, -2), labels.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    loss.item()
    print(steps * batch_size / (time.monotonic() - start))


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in CASES:
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
