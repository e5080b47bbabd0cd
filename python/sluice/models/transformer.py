"""Layers of a Transformer."""
from functools import partial

import torch
from torch import nn
from torch.nn import functional

from sluice.models.chain import Chain


class SelfAttention(nn.Module):
    """[N, T, C] -> [N, T, C]."""

    def __init__(self, width, heads, dropout, causal, bias):
        super().__init__()
        self.heads, self.causal, self.p = heads, causal, dropout
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.projection = nn.Linear(width, width, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        q, k, v = (part.view(x.size(0), x.size(1), self.heads, -1)
                   .transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(
            q, k, v, None, self.p if self.training else 0.0, self.causal)
        joined = mixed.transpose(1, 2).reshape(x.shape)
        return self.dropout(self.projection(joined))


def transformer_mlp(width, dropout, bias, activation):
    chain = Chain()
    chain.add("hidden", nn.Linear(width, 4 * width, bias=bias))
    chain.then(partial(functional.gelu, approximate=activation))
    chain.add("projection", nn.Linear(4 * width, width, bias=bias))
    return chain.add("dropout", nn.Dropout(dropout))


class TransformerLayer(nn.Module):
    """h + attention(norm(h)), then h + mlp(norm(h)).

    activation: what GELU is approximated by, "tanh" or "none".
    """

    def __init__(self, width, heads, dropout, causal, bias=True,
                 activation="none", epsilon=1e-5):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, epsilon, bias=bias)
        self.attention = SelfAttention(width, heads, dropout, causal, bias)
        self.norm2 = nn.LayerNorm(width, epsilon, bias=bias)
        self.mlp = transformer_mlp(width, dropout, bias, activation)

    def forward(self, h):
        h = h + self.attention(self.norm1(h))
        return h + self.mlp(self.norm2(h))


def rotated(x, base):
    """Queries or keys [N, heads, T, d], turned by the angles of their places."""
    places, width = x.shape[2:]
    exact = {"dtype": torch.float64, "device": x.device}
    rates = torch.full((), base, **exact) ** (
        torch.arange(0, width, 2, **exact) / -width)
    angles = torch.outer(torch.arange(places, **exact), rates)
    cosines, sines = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    left, right = x.chunk(2, -1)
    return torch.cat([left * cosines - right * sines,
                      right * cosines + left * sines], -1)


class RotaryAttention(nn.Module):
    """[N, T, C] -> [N, T, C]; heads of queries share those of keys."""

    def __init__(self, width, heads, key_heads, base):
        super().__init__()
        self.heads, self.key_heads, self.base = heads, key_heads, base
        keys = width // heads * key_heads
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, keys, bias=False)
        self.v = nn.Linear(width, keys, bias=False)
        self.projection = nn.Linear(width, width, bias=False)

    def forward(self, x):
        def split(values, heads):
            return values.view(x.size(0), x.size(1), heads, -1).transpose(1, 2)

        def shared(values):
            times = self.heads // self.key_heads
            return values if times == 1 else values.repeat_interleave(times, 1)

        q = split(self.q(x), self.heads)
        k = rotated(split(self.k(x), self.key_heads), self.base)
        v = split(self.v(x), self.key_heads)
        mixed = functional.scaled_dot_product_attention(
            rotated(q, self.base), shared(k), shared(v), None, 0.0, True)
        return self.projection(mixed.transpose(1, 2).reshape(x.shape))


class SwiGlu(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class LlamaLayer(nn.Module):
    """h + attention(norm(h)), then h + mlp(norm(h))."""

    def __init__(self, width, heads, key_heads, hidden, base, epsilon):
        super().__init__()
        self.norm1 = nn.RMSNorm(width, epsilon)
        self.attention = RotaryAttention(width, heads, key_heads, base)
        self.norm2 = nn.RMSNorm(width, epsilon)
        self.mlp = SwiGlu(width, hidden)

    def forward(self, h):
        h = h + self.attention(self.norm1(h))
        return h + self.mlp(self.norm2(h))


class Tied(nn.Module):
    """A layer through which a further tensor passes unchanged."""

    def __init__(self, layer):
        super().__init__()
        for name, child in layer.named_children():
            self.add_module(name, child)
        self._layer = [layer]  # its children have their names here

    def forward(self, values):
        h, weight = values
        return self._layer[0](h), weight


class ClassToken(nn.Module):
    """The first of the tokens, or their mean, normalised and classified."""

    def __init__(self, width, classes, is_mean, epsilon):
        super().__init__()
        self.is_mean = is_mean
        self.norm = nn.LayerNorm(width, epsilon)
        self.linear = nn.Linear(width, classes)

    def forward(self, tokens):
        if self.is_mean:
            return self.linear(self.norm(tokens).mean(1))
        return self.linear(self.norm(tokens.select(1, 0)))


def tokens_of(maps):
    """[N, C, H, W] -> [N, H W, C]."""
    return maps.flatten(2).transpose(1, 2).contiguous()


def parameter(*shape):
    return nn.Parameter(torch.zeros(shape))
