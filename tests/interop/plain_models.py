"""Models of ours as plain PyTorch modules: nothing of Sluice is in them.

Their parts are called as in our files, so that load_state_dict() takes an
exported file as it is, with strict=True.
"""
import torch
from torch import nn
from torch.nn import functional


class Mlp(nn.Module):
    def __init__(self, widths, batch_norm):
        super().__init__()
        self.layers = nn.ModuleList()
        for i, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
            parts = {"linear": nn.Linear(inputs, outputs)}
            if batch_norm and i + 2 < len(widths):
                parts["norm"] = nn.BatchNorm1d(outputs)
            self.layers.append(nn.ModuleDict(parts))

    def forward(self, x):
        x = x.flatten(1)
        for i, layer in enumerate(self.layers):
            x = layer["linear"](x)
            if "norm" in layer:
                x = layer["norm"](x)
            if i + 1 < len(self.layers):
                x = functional.relu(x)
        return x


class Stem(nn.Module):
    def __init__(self, inputs, channels):
        super().__init__()
        self.conv = nn.Conv2d(inputs, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return functional.relu(self.norm(self.conv(x)))


class ResidualBlock(nn.Module):
    """He et al. 2015 with shortcuts without parameters (option A)."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.stride, self.new_channels = stride, outputs - inputs
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1,
                               bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)

    def forward(self, x):
        inner = functional.relu(self.norm1(self.conv1(x)))
        shortcut = functional.pad(x[:, :, ::self.stride, ::self.stride],
                                  (0, 0, 0, 0, 0, self.new_channels))
        return functional.relu(self.norm2(self.conv2(inner)) + shortcut)


class PoolAndLinear(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.linear = nn.Linear(channels, classes)

    def forward(self, x):
        return self.linear(functional.adaptive_avg_pool2d(x, 1).flatten(1))


class ResNet(nn.Module):
    def __init__(self, depth, width, inputs, classes):
        super().__init__()
        layers = [Stem(inputs, width)]
        for stage in range(3):
            for i in range((depth - 2) // 6):
                first = stage > 0 and i == 0
                layers.append(ResidualBlock(width << (stage - first),
                                            width << stage, 2 if first else 1))
        layers.append(PoolAndLinear(width << 2, classes))
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


class Embeddings(nn.Module):
    def __init__(self, vocabulary, context, width):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(context, width)

    def forward(self, tokens):
        return self.token(tokens) + self.position.weight[:tokens.size(1)]


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in self.qkv(x).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.projection(mixed.transpose(1, 2).reshape(x.shape))


class Mlp4(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.hidden = nn.Linear(width, 4 * width)
        self.projection = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.projection(
            functional.gelu(self.hidden(x), approximate="tanh"))


class TransformerLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = Mlp4(width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vocabulary(nn.Module):
    def __init__(self, width, vocabulary):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.vocabulary = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x):
        return self.vocabulary(self.norm(x))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, context, vocabulary):
        super().__init__()
        self.layers = nn.Sequential(
            Embeddings(vocabulary, context, width),
            *(TransformerLayer(width, heads) for _ in range(layers)),
            Vocabulary(width, vocabulary))

    def forward(self, tokens):
        return self.layers(tokens)


def model_for(options, sample):
    """options, sample: as the metadata `model` and `sample` say."""
    shape, classes = sample["shape"], sample["classes"]
    if options["name"] == "mlp":
        inputs = int(torch.tensor(shape).prod())
        return Mlp([inputs, *options["hidden"], classes], options["batch_norm"])
    if options["name"] == "resnet":
        return ResNet(options["depth"], options["width"], shape[0], classes)
    if options["name"] == "gpt":
        assert options["bias"] and not options["tied"]
        assert options["activation"] == "gelu_tanh"
        return Gpt(options["layers"], options["width"], options["heads"],
                   shape[0], classes)
    raise SystemExit(f"no plain module for the model {options['name']}")
