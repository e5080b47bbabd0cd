"""Residual networks (He et al. 2015, arXiv:1512.03385)."""
import torch
from torch import nn
from torch.nn import functional

from sluice.models.chain import Builder, is_channels_last

EXPANSION = 4  # of a bottleneck
# Blocks of each stage, and whether they are bottlenecks.
DEEP = {"resnet18": ((2, 2, 2, 2), False), "resnet34": ((3, 4, 6, 3), False),
        "resnet50": ((3, 4, 6, 3), True)}
# Window and stride of a stem's convolution, and whether it pools.
STEMS = {32: (3, 1, False), 64: (3, 1, True), 224: (7, 2, True)}


def convolution(inputs, outputs, size=3, stride=1):
    """That keeps the map but for its stride."""
    return nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)


def subsample(x, stride):
    """Every stride-th pixel of every stride-th row."""
    if not is_channels_last(x):
        return x[:, :, ::stride, ::stride]
    return x.permute(0, 2, 3, 1)[:, ::stride, ::stride].permute(0, 3, 1, 2)


class Stem(nn.Module):
    def __init__(self, inputs, channels, size=3, stride=1, pools=False):
        super().__init__()
        self.conv = convolution(inputs, channels, size, stride)
        self.norm = nn.BatchNorm2d(channels)
        self.pools = pools

    def forward(self, x):
        h = self.norm(self.conv(x)).relu_()
        return functional.max_pool2d(h, 3, 2, 1) if self.pools else h


class ResidualBlock(nn.Module):
    """With shortcuts without parameters (option A)."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.stride, self.new_channels = stride, outputs - inputs
        self.conv1 = convolution(inputs, outputs, 3, stride)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = convolution(outputs, outputs)
        self.norm2 = nn.BatchNorm2d(outputs)

    def forward(self, x):
        inner = self.norm1(self.conv1(x)).relu_()
        return (self.norm2(self.conv2(inner)) + self._shortcut(x)).relu_()

    def _shortcut(self, x):
        if self.stride == 1 and self.new_channels == 0:
            return x
        return functional.pad(subsample(x, self.stride),
                              (0, 0, 0, 0, 0, self.new_channels))


def resnet(options, sample):
    return small_resnet(options["depth"], options["width"], sample)


def resnet_of_depth(depth):
    def make(options, sample):
        return small_resnet(depth, options["width"], sample)

    return make


def small_resnet(depth, width, sample):
    inputs = sample["shape"][0]
    builder = Builder(sample["shape"])
    builder.layer(Stem(inputs, width), [width])
    for stage in range(3):
        for i in range((depth - 2) // 6):
            stride = 2 if stage > 0 and i == 0 else 1
            builder.layer(ResidualBlock(builder.shape[0], width << stage,
                                        stride), [width << stage])
    builder.entry().global_average_pool().linear(sample["classes"])
    return builder.layers


class DeepBlock(nn.Module):
    """With projections (option B); a bottleneck's stride is that of its 3x3."""

    def __init__(self, inputs, width, stride, is_bottleneck):
        super().__init__()
        outputs = EXPANSION * width if is_bottleneck else width
        convolutions = ([(width, 1, 1), (width, 3, stride), (outputs, 1, 1)]
                        if is_bottleneck
                        else [(width, 3, stride), (width, 3, 1)])
        self.depth = len(convolutions)
        channels = inputs
        for i, (to, size, step) in enumerate(convolutions, 1):
            self.add_module(f"conv{i}", convolution(channels, to, size, step))
            self.add_module(f"norm{i}", nn.BatchNorm2d(to))
            channels = to
        self.is_projected = stride != 1 or inputs != outputs
        if self.is_projected:
            self.shortcut = convolution(inputs, outputs, 1, stride)
            self.shortcut_norm = nn.BatchNorm2d(outputs)

    def forward(self, x):
        h = x
        for i in range(1, self.depth + 1):
            h = getattr(self, f"norm{i}")(getattr(self, f"conv{i}")(h))
            if i < self.depth:
                h.relu_()
        return (h + self._shortcut(x)).relu_()

    def _shortcut(self, x):
        return self.shortcut_norm(self.shortcut(x)) if self.is_projected else x


def nearest_stem(shape):
    """The first of the nearest."""
    pixels = min(shape[1:])
    return min(STEMS, key=lambda size: abs(size - pixels))


def deep_resnet(name):
    blocks, is_bottleneck = DEEP[name]

    def make(options, sample):
        size, stride, pools = STEMS[options["stem"]
                                    or nearest_stem(sample["shape"])]
        channels = options["width"]
        layers = [Stem(sample["shape"][0], channels, size, stride, pools)]
        for stage, count in enumerate(blocks):
            width = options["width"] << stage
            for i in range(count):
                layers.append(DeepBlock(channels, width,
                                        2 if stage > 0 and i == 0 else 1,
                                        is_bottleneck))
                channels = EXPANSION * width if is_bottleneck else width
        builder = Builder([channels, 1, 1])
        builder.entry().global_average_pool().linear(sample["classes"])
        return layers + builder.layers

    return make


class Branch(nn.Module):
    """Two 3x3 convolutions, each with a norm, and a ReLU between them."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = convolution(inputs, outputs, 3, stride)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = convolution(outputs, outputs)
        self.norm2 = nn.BatchNorm2d(outputs)

    def branch(self, x):
        return self.norm2(self.conv2(self.norm1(self.conv1(x)).relu_()))


class ReversibleBlock(Branch):
    """(x1, x2) -> (x2, x1 + F(x2)), the halves of the channels."""

    def __init__(self, channels):
        super().__init__(channels // 2, channels // 2, 1)

    def forward(self, x):
        x1, x2 = x.split(x.size(1) // 2, 1)
        return torch.cat([x2, x1 + self.branch(x2)], 1)


class Downsampling(Branch):
    """Halves the map and doubles the channels."""

    def __init__(self, inputs):
        super().__init__(inputs, 2 * inputs, 2)
        self.shortcut = convolution(inputs, 2 * inputs, 1, 2)
        self.shortcut_norm = nn.BatchNorm2d(2 * inputs)

    def forward(self, x):
        return self.branch(x) + self.shortcut_norm(self.shortcut(x))


def revnet(options, sample):
    channels = options["width"]
    layers = [Stem(sample["shape"][0], channels)]
    for stage, count in enumerate(options["blocks"]):
        if stage > 0:
            layers.append(Downsampling(channels))
            channels *= 2
        layers += [ReversibleBlock(channels) for _ in range(count)]
    builder = Builder([channels, 1, 1])
    builder.entry().activation("relu").global_average_pool()
    return layers + builder.linear(sample["classes"]).layers
