#!/usr/bin/env python3
"""What one would write by hand in PyTorch for decoupled blocks with local
losses: a process with one thread for each block, activations through a ring of
slots in shared memory, semaphores to wait by, labels known to all, batches made
beforehand; malloc tuned to keep its memory, maps in channels-last order, fused
optimizers. Prints samples per second of STEPS steps of the last block after as
many others.

usage: handoff_rival.py conv|mlp|gpt 1|2|4 STEPS
"""
import ctypes
import sys
import time

import torch
import torch.multiprocessing as processes
import torch.nn.functional as F
from torch import nn

SLOTS = 4  # of a ring
BATCHES = 16
WIDTH, CONTEXT, VOCABULARY, HEADS = 128, 64, 65, 4


def keep_memory():
    """No page faults in the loop: freed memory stays with the process."""
    libc = ctypes.CDLL("libc.so.6")
    trim_threshold, mmap_threshold, mmap_max = -1, -3, -4
    libc.mallopt(mmap_threshold, 1 << 25)
    libc.mallopt(mmap_max, 0)
    libc.mallopt(trim_threshold, 2**31 - 1)


class TransformerLayer(nn.Module):
    def __init__(self, width=WIDTH, heads=HEADS, of_text=True):
        super().__init__()
        self.heads, self.of_text = heads, of_text
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.hidden = nn.Linear(width, 4 * width)
        self.output = nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, c = x.shape
        parts = self.qkv(self.norm1(x)).view(n, t, 3, self.heads,
                                             c // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=self.of_text)
        x = x + self.projection(seen.transpose(1, 2).reshape(n, t, c))
        hidden = F.gelu(self.hidden(self.norm2(x)),
                        approximate="tanh" if self.of_text else "none")
        return x + self.output(hidden)


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Parameter(torch.zeros(CONTEXT, WIDTH))

    def forward(self, tokens):
        return self.token(tokens) + self.position


def conv_layers():
    layers = []
    for inputs, outputs in ((3, 128), (128, 32), (32, 256)):
        layers.append(nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs),
            nn.ReLU(), nn.MaxPool2d(2)))
    return layers + [nn.Sequential(nn.Flatten(), nn.Linear(4096, 10))]


def mlp_layers():
    layers = [nn.Sequential(nn.Flatten(), nn.Linear(784, 1024), nn.ReLU())]
    for _ in range(2):
        layers.append(nn.Sequential(nn.Linear(1024, 1024), nn.ReLU()))
    return layers + [nn.Linear(1024, 10)]


def gpt_layers():
    first = nn.Sequential(Embeddings(), TransformerLayer())
    last = nn.Sequential(TransformerLayer(), nn.LayerNorm(WIDTH),
                         nn.Linear(WIDTH, VOCABULARY, bias=False))
    return [first, TransformerLayer(), TransformerLayer(), last]


class Pooled(nn.Module):
    """Means over a view in channels-last order: their gradient stays in it."""

    def forward(self, maps):
        return maps.permute(0, 2, 3, 1).mean((1, 2))


CASES = {  # layers, first layers of two blocks, sizes of a batch, optimizer
    "conv": (conv_layers, 1, (64, 3, 32, 32),
             lambda w: torch.optim.SGD(w, 0.01, momentum=0.9, fused=True)),
    "mlp": (mlp_layers, 2, (128, 1, 28, 28),
            lambda w: torch.optim.Adam(w, 1e-4, fused=True)),
    "gpt": (gpt_layers, 2, (12, CONTEXT),
            lambda w: torch.optim.AdamW(w, 1e-4, fused=True)),
}


def head_for(case, features):
    if case == "gpt":
        return nn.Sequential(nn.LayerNorm(WIDTH),
                             nn.Linear(WIDTH, VOCABULARY, bias=False))
    if features.dim() == 4:
        return nn.Sequential(Pooled(), nn.Linear(features.size(1), 10))
    return nn.Linear(features.size(1), 10)


def in_blocks(case, count):
    layers, first_of_two = CASES[case][0](), CASES[case][1]
    if count == 1:
        return [nn.Sequential(*layers)]
    if count == 2:
        return [nn.Sequential(*layers[:first_of_two]),
                nn.Sequential(*layers[first_of_two:])]
    return [nn.Sequential(layer) for layer in layers]


def batches(case):
    torch.manual_seed(1)
    sizes = CASES[case][2]
    if case == "gpt":
        return (torch.randint(VOCABULARY, (BATCHES, *sizes)),
                torch.randint(VOCABULARY, (BATCHES, *sizes)))
    inputs = torch.randn(BATCHES, *sizes)
    return list(inputs if case != "conv" else
                [x.contiguous(memory_format=torch.channels_last)
                 for x in inputs]), torch.randint(10, (BATCHES, sizes[0]))


class Ring:
    """Activations of a boundary. A slot belongs to the block above from
    filled() until done()."""

    def __init__(self, example, context):
        self.slots = [torch.empty_like(example).share_memory_()
                      for _ in range(SLOTS)]
        self.free = context.Semaphore(SLOTS)  # a futex each
        self.full = context.Semaphore(0)

    def send(self, step, value):
        self.free.acquire()
        self.slots[step % SLOTS].copy_(value)
        self.full.release()

    def receive(self, step):
        self.full.acquire()
        return self.slots[step % SLOTS]

    def done(self):
        self.free.release()


def train(case, block, head, below, above, steps, times):
    torch.set_num_threads(1)
    keep_memory()
    if case == "conv":
        block = block.to(memory_format=torch.channels_last)
    inputs, labels = batches(case)
    weights = list(block.parameters()) + (list(head.parameters()) if head
                                          else [])
    optimizer = CASES[case][3](weights)
    for step in range(2 * steps):
        if step == steps:
            start = time.monotonic()
        x = below.receive(step) if below else inputs[step % BATCHES]
        features = block(x)
        if above:
            above.send(step, features.detach())
        logits = head(features) if head else features
        loss = F.cross_entropy(logits.flatten(0, -2),
                               labels[step % BATCHES].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if below:
            below.done()
        optimizer.step()
        loss.item()
    if not above:
        times.put(time.monotonic() - start)


def main(case, count, steps):
    torch.set_num_threads(1)
    context = processes.get_context("fork")
    blocks = in_blocks(case, count)
    heads, rings = [], []
    x = batches(case)[0][0]
    for block in blocks[:-1]:
        with torch.no_grad():
            if case == "conv":
                block.to(memory_format=torch.channels_last)
            x = block(x)
        heads.append(head_for(case, x))
        rings.append(Ring(x, context))
    heads.append(None)
    times = context.SimpleQueue()
    workers = [
        context.Process(target=train, args=(
            case, blocks[k], heads[k], rings[k - 1] if k else None,
            rings[k] if k + 1 < count else None, steps, times))
        for k in range(count)]
    for worker in workers:
        worker.start()
    taken = times.get()
    for worker in workers:
        worker.join()
    print(steps * CASES[case][2][0] / taken)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in CASES:
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
