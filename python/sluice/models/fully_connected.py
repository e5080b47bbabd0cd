"""Fully connected networks."""
import math

import torch
from torch import nn
from torch.nn import functional

from sluice.models.chain import Builder


def mlp(options, sample):
    builder = Builder(sample["shape"])
    for width in options["hidden"]:
        builder.entry().flatten().linear(width)
        if options["batch_norm"]:
            builder.norm()
        builder.activation(options["activation"]).dropout(options["dropout"])
    return builder.entry().flatten().linear(sample["classes"]).layers


class ForwardForwardLayer(nn.Module):
    """A layer of the Forward-Forward algorithm (Hinton 2022, arXiv:2212.13345),
    as it evaluates: h, and the goodness of each class so far. The first layer
    writes every class into each sample, the last gives the goodness of all but
    the first."""

    LABEL = 3  # as bright as the brightest pixel of a normalised image

    def __init__(self, inputs, outputs, classes, is_first, is_last):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.classes = classes
        self.is_first, self.is_last = is_first, is_last

    def forward(self, x):
        values, total = (self._variants(x), None) if self.is_first else x
        direction = values / (values.square().mean(-1, keepdim=True).sqrt()
                              + 1e-8)
        h = functional.relu(self.linear(direction))  # [N, V, C]
        goodness = h.square().sum(-1)
        if self.is_first and not self.is_last:
            goodness = torch.zeros_like(goodness)
        if total is not None:
            goodness = goodness + total
        return goodness if self.is_last else (h, goodness)

    def _variants(self, samples):
        """[N, ...] -> [N, classes, D]."""
        values = samples.flatten(1)
        every = values.unsqueeze(1).expand(-1, self.classes, -1).clone(
            memory_format=torch.contiguous_format)
        labels = torch.eye(self.classes, dtype=values.dtype,
                           device=values.device)
        every[:, :, :self.classes] = labels * self.LABEL
        return every


def ff_mlp(options, sample):
    widths = [math.prod(sample["shape"]), *options["hidden"]]
    last = len(widths) - 2
    return [ForwardForwardLayer(inputs, outputs, sample["classes"], i == 0,
                                i == last)
            for i, (inputs, outputs) in enumerate(zip(widths, widths[1:]))]
