"""Two processes that meet over Gloo, one thread each, for the rivals."""
import os
import sys
import tempfile

import torch
import torch.distributed as distributed
import torch.multiprocessing as processes

import handoff_rival as nets

SIZE = 2


def meet(rank, meeting):
    torch.set_num_threads(1)
    nets.keep_memory()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    distributed.init_process_group("gloo", init_method=f"file://{meeting}",
                                   rank=rank, world_size=SIZE)


def part():
    distributed.barrier()
    distributed.destroy_process_group()


def set_batch(case, batch):
    layers, cut, sizes, optimizer_of = nets.CASES[case]
    nets.CASES[case] = (layers, cut, (batch, *sizes[1:]), optimizer_of)


def seconds_of(train, *arguments):
    """What train(rank, meeting, times, *arguments) puts into `times`."""
    context = processes.get_context("spawn")
    times = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        workers = [
            context.Process(target=train, args=(rank, f"{folder}/meeting", times,
                                                *arguments))
            for rank in range(SIZE)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
            if worker.exitcode != 0:
                sys.exit(f"a process ended with status {worker.exitcode}")
    return times.get()
