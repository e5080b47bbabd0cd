"""What the lists of layers are made of."""
import math
from functools import partial

import torch
from torch import nn
from torch.nn import functional


ACTIVATIONS = {"relu": functional.relu,
               "leaky_relu": partial(functional.leaky_relu,
                                     negative_slope=0.01),
               "tanh": torch.tanh,
               "gelu": functional.gelu}


class Chain(nn.Module):
    """Modules and functions one after another. A module has a name, which its
    parameters begin with; a function has none."""

    def __init__(self):
        super().__init__()
        self._steps = []  # a name, or a function

    def add(self, name, module):
        self.add_module(name, module)
        self._steps.append(name)
        return self

    def then(self, function):
        self._steps.append(function)
        return self

    def forward(self, x):
        for step in self._steps:
            x = self._modules[step](x) if isinstance(step, str) else step(x)
        return x


def is_channels_last(x):
    return (x.dim() == 4 and not x.is_contiguous()
            and x.is_contiguous(memory_format=torch.channels_last))


def pixel_mean(x):
    """The mean over all pixels: [N, C, H, W] -> [N, C]."""
    if is_channels_last(x):
        return x.permute(0, 2, 3, 1).mean((1, 2))
    return x.mean((2, 3))


def flat(x):
    return x.flatten(1)


class Builder:
    """Writes a list of layers, and keeps count of the shape of a sample. An
    entry is a chain whose members are called "linear", "conv", "norm",
    "layer_norm", "embedding" and "dropout"."""

    def __init__(self, shape):
        self.shape = list(shape)
        self.layers = []

    def entry(self):
        self.layers.append(Chain())
        return self

    def layer(self, module, shape):
        self.layers.append(module)
        self.shape = list(shape)
        return self

    def _add(self, name, module):
        self.layers[-1].add(name, module)
        return self

    def _then(self, function):
        self.layers[-1].then(function)
        return self

    def flatten(self):
        if len(self.shape) == 1:
            return self
        self.shape = [math.prod(self.shape)]
        return self._then(flat)

    def linear(self, outputs):
        inputs, self.shape[-1] = self.shape[-1], outputs
        return self._add("linear", nn.Linear(inputs, outputs))

    def conv(self, channels, size, stride=1, padding=0):
        inputs = self.shape[0]
        self._slide(channels, size, stride, padding)
        return self._add("conv", nn.Conv2d(inputs, channels, size, stride,
                                           padding))

    def norm(self):
        kind = nn.BatchNorm1d if len(self.shape) == 1 else nn.BatchNorm2d
        return self._add("norm", kind(self.shape[0]))

    def layer_norm(self):
        return self._add("layer_norm", nn.LayerNorm(self.shape[-1]))

    def embedding(self, tokens, width):
        self.shape.append(width)
        return self._add("embedding", nn.Embedding(tokens, width))

    def activation(self, name):
        return self._then(ACTIVATIONS[name])

    def max_pool(self, size, stride, padding=0):
        self._slide(self.shape[0], size, stride, padding)
        return self._then(partial(functional.max_pool2d, kernel_size=size,
                                  stride=stride, padding=padding))

    def avg_pool(self, size, stride, padding=0):
        self._slide(self.shape[0], size, stride, padding)
        return self._then(partial(functional.avg_pool2d, kernel_size=size,
                                  stride=stride, padding=padding))

    def global_average_pool(self):
        self.shape = self.shape[:1]
        return self._then(pixel_mean)

    def dropout(self, p, of_channels=False):
        if p == 0:
            return self
        is_map = of_channels and len(self.shape) == 3
        return self._add("dropout", (nn.Dropout2d if is_map else nn.Dropout)(p))

    def _slide(self, channels, size, stride, padding):
        self.shape = [channels] + [(extent + 2 * padding - size) // stride + 1
                                   for extent in self.shape[1:]]
