#!/usr/bin/env python3
"""What data parallelism makes of the same two cores: DistributedDataParallel
with Gloo, two processes of one thread each, half of each batch in each; batches
made beforehand, malloc tuned to keep its memory, maps in channels-last order,
fused optimizers. Prints samples per second of STEPS steps after as many others.

usage: data_parallel_rival.py conv|mlp|gpt BATCH STEPS
"""
import os
import sys
import tempfile
import time

import torch
import torch.distributed as distributed
import torch.multiprocessing as processes
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import handoff_rival as nets

REPLICAS = 2


def train(rank, case, batch, steps, meeting, times):
    torch.set_num_threads(1)
    nets.keep_memory()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    distributed.init_process_group("gloo", init_method=f"file://{meeting}",
                                   rank=rank, world_size=REPLICAS)
    layers, cut, sizes, optimizer_of = nets.CASES[case]
    nets.CASES[case] = (layers, cut, (batch, *sizes[1:]), optimizer_of)
    (net,) = nets.in_blocks(case, 1)
    if case == "conv":
        net = net.to(memory_format=torch.channels_last)
    net = DistributedDataParallel(net, gradient_as_bucket_view=True)
    optimizer = optimizer_of(list(net.parameters()))
    inputs, labels = nets.batches(case)
    half = slice(rank * batch // REPLICAS, (rank + 1) * batch // REPLICAS)
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
    distributed.barrier()
    distributed.destroy_process_group()


def main(case, batch, steps):
    context = processes.get_context("spawn")
    times = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        workers = [
            context.Process(target=train, args=(
                rank, case, batch, steps, f"{folder}/meeting", times))
            for rank in range(REPLICAS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
            if worker.exitcode != 0:
                sys.exit(f"a replica ended with status {worker.exitcode}")
    print(steps * batch / times.get())


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in nets.CASES:
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:]))
