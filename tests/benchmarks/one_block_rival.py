#!/usr/bin/env python3
"""A tuned training loop in PyTorch: maps in channels-last order, a fused
optimizer, malloc tuned to keep its memory, and batches gathered from tensors
that are normalised and in memory. Prints samples per second of STEPS steps
after as many others. With "compiled" the network goes through torch.compile
first, which wants a C++ compiler.

usage: one_block_rival.py conv|resnet18|resnet50|vit|gpt THREADS STEPS
                          [compiled]
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


def resnet(name):
    sys.path.insert(0, str(EXAMPLES))
    import residual_network
    return getattr(residual_network, name)(10)


def resnet_optimizer(weights):
    return torch.optim.SGD(weights, 0.01, momentum=0.9, nesterov=True,
                           weight_decay=5e-4, fused=True)


class Vit(nn.Module):
    WIDTH, PATCH = 192, 4

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, self.WIDTH, self.PATCH, self.PATCH)
        self.class_token = nn.Parameter(torch.zeros(1, 1, self.WIDTH))
        self.position = nn.Parameter(
            torch.zeros(1 + (32 // self.PATCH) ** 2, self.WIDTH))
        self.layers = nn.Sequential(*(
            handoff_rival.TransformerLayer(self.WIDTH, heads=3, of_text=False)
            for _ in range(6)))
        self.classify = nn.Sequential(nn.LayerNorm(self.WIDTH),
                                      nn.Linear(self.WIDTH, 10))

    def forward(self, images):
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        first = self.class_token.expand(len(images), 1, -1)
        tokens = torch.cat((first, tokens), 1) + self.position
        return self.classify(self.layers(tokens)[:, 0])


CASES = {  # network, batch size, optimizer
    "conv": (lambda: nn.Sequential(*handoff_rival.conv_layers()), 64,
             lambda w: torch.optim.SGD(w, 0.01, momentum=0.9, fused=True)),
    "resnet18": (lambda: resnet("resnet18"), 32, resnet_optimizer),
    "resnet50": (lambda: resnet("resnet50"), 16, resnet_optimizer),
    "vit": (Vit, 32, lambda w: torch.optim.AdamW(w, 1e-4, weight_decay=0.05,
                                                 fused=True)),
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


def main(case, threads, steps, compiled):
    torch.set_num_threads(threads)
    handoff_rival.keep_memory()
    torch.manual_seed(1)
    make, batch_size, optimizer_of = CASES[case]
    data = Texts() if case == "gpt" else Images()
    net = make().to(memory_format=torch.channels_last)
    optimizer = optimizer_of(net.parameters())
    if compiled:
        net = torch.compile(net)
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
    if (len(sys.argv) not in (4, 5) or sys.argv[1] not in CASES
            or sys.argv[4:] not in ([], ["compiled"])):
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), len(sys.argv) == 5)
