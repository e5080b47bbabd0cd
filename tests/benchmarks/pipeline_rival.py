#!/usr/bin/env python3
"""The exact pipelines that PyTorch has: torch.distributed.pipelining with Gloo,
two processes of one thread each, labels known to the last one, batches made
beforehand; malloc tuned to keep its memory, maps in channels-last order where
they are not sent, fused optimizers. Prints samples per second of STEPS steps
after as many others.

usage: pipeline_rival.py conv|mlp|gpt gpipe|1f1b MICRO_BATCHES BATCH STEPS
"""
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import (PipelineStage, Schedule1F1B,
                                          ScheduleGPipe)

import gloo_pair
import handoff_rival as nets

SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}


class Sent(nn.Module):
    """Gloo sends what lies in rows; inside, maps lie in channels-last order."""

    def __init__(self, block):
        super().__init__()
        self.block = block.to(memory_format=torch.channels_last)

    def forward(self, x):
        if x.dim() == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        return self.block(x).contiguous()


def loss_of(logits, labels):
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten())


def stage_of(rank, blocks, inputs):
    """Told what comes and goes: finding it out would take NumPy."""
    with torch.no_grad():
        sent = blocks[0](inputs)
        logits = blocks[1](sent)
    sent, logits = sent.requires_grad_(), logits.requires_grad_()
    ends = [(inputs, sent), (sent, logits)][rank]
    return PipelineStage(blocks[rank], rank, 2, torch.device("cpu"),
                         input_args=ends[0], output_args=ends[1])


def train(rank, meeting, times, case, order, micro_batches, batch, steps):
    gloo_pair.meet(rank, meeting)
    gloo_pair.set_batch(case, batch)
    blocks = [Sent(block) for block in nets.in_blocks(case, 2)]
    optimizer = nets.CASES[case][3](list(blocks[rank].parameters()))
    inputs, labels = nets.batches(case)
    stage = stage_of(rank, blocks, inputs[0][:batch // micro_batches])
    schedule = SCHEDULES[order](stage, micro_batches, loss_fn=loss_of)
    for step in range(2 * steps):
        if step == steps:
            start = time.monotonic()
        which = step % nets.BATCHES
        optimizer.zero_grad(set_to_none=True)
        if rank == 0:
            schedule.step(inputs[which])
        else:
            losses = []
            schedule.step(target=labels[which], losses=losses)
            sum(losses).item()
        optimizer.step()
    if rank == 1:
        times.put(time.monotonic() - start)
    gloo_pair.part()


def main(case, order, micro_batches, batch, steps):
    print(steps * batch / gloo_pair.seconds_of(train, case, order, micro_batches, batch, steps))


if __name__ == "__main__":
    if (len(sys.argv) != 6 or sys.argv[1] not in nets.CASES
            or sys.argv[2] not in SCHEDULES):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
