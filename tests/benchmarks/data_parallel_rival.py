#!/usr/bin/env python3
"""What data parallelism makes of the same two cores: DistributedDataParallel
with Gloo, two processes of one thread each, half of each batch in each; batches
made beforehand, malloc tuned to keep its memory, maps in channels-last order,
fused optimizers. Prints samples per second of STEPS steps after as many others.

usage: data_parallel_rival.py conv|mlp|gpt BATCH STEPS
"""
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import gloo_pair
import handoff_rival as nets


def train(rank, meeting, times, case, batch, steps):
    gloo_pair.meet(rank, meeting)
    gloo_pair.set_batch(case, batch)
    (net,) = nets.in_blocks(case, 1)
    if case == "conv":
        net = net.to(memory_format=torch.channels_last)
    net = DistributedDataParallel(net, gradient_as_bucket_view=True)
    optimizer = nets.CASES[case][3](list(net.parameters()))
    inputs, labels = nets.batches(case)
    half = slice(rank * batch // gloo_pair.SIZE, (rank + 1) * batch // gloo_pair.SIZE)
    inputs = [one[half] for one in inputs]
    labels = [one[half] for one in labels]
    for step in range(2 * steps):
        if step == steps:
            start = time.monotonic()
        which = step % nets.BATCHES
        logits = net(inputs[which])
        loss = F.cross_entropy(logits.flatten(0, -2), labels[which].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
    if rank == 0:
        times.put(time.monotonic() - start)
    gloo_pair.part()


def main(case, batch, steps):
    print(steps * batch / gloo_pair.seconds_of(train, case, batch, steps))


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in nets.CASES:
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:]))
