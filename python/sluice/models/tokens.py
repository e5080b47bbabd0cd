"""Networks on the patches of an image."""
import torch
from torch import nn
from torch.nn import functional

from sluice.models.chain import Chain
from sluice.models.transformer import (ClassToken, TransformerLayer, parameter,
                                       tokens_of)

EPSILON = 1e-6


def places_of(options, sample):
    _, height, width = sample["shape"]
    return (height // options["patch"]) * (width // options["patch"])


def patch_projection(options, sample):
    return nn.Conv2d(sample["shape"][0], options["width"], options["patch"],
                     options["patch"])


class VitEmbedding(nn.Module):
    """Patches, a class token where there is one, and positions."""

    def __init__(self, options, sample):
        super().__init__()
        width, has_token = options["width"], options["pool"] == "class_token"
        self.patches = patch_projection(options, sample)
        self.position = parameter(places_of(options, sample) + has_token, width)
        self.class_token = parameter(1, width) if has_token else None
        self.dropout = nn.Dropout(options["dropout"])

    def forward(self, images):
        tokens = tokens_of(self.patches(images))
        if self.class_token is not None:
            token = self.class_token.expand(tokens.size(0), 1, -1)
            tokens = torch.cat([token, tokens], 1)
        return self.dropout(tokens + self.position)


def vit(options, sample):
    width = options["width"]
    return [VitEmbedding(options, sample),
            *(TransformerLayer(width, options["heads"], options["dropout"],
                               causal=False, epsilon=EPSILON)
              for _ in range(options["layers"])),
            ClassToken(width, sample["classes"], options["pool"] == "mean",
                       EPSILON)]


class MixerPatches(nn.Module):
    def __init__(self, options, sample):
        super().__init__()
        self.patches = patch_projection(options, sample)

    def forward(self, images):
        return tokens_of(self.patches(images))


def mixer_mlp(width, hidden, dropout):
    """Over the last dimension."""
    chain = Chain()
    chain.add("hidden", nn.Linear(width, hidden)).then(functional.gelu)
    chain.add("projection", nn.Linear(hidden, width))
    return chain.add("dropout", nn.Dropout(dropout))


class MixerLayer(nn.Module):
    """[N, T, C] -> [N, T, C]."""

    def __init__(self, options, places):
        super().__init__()
        width, dropout = options["width"], options["dropout"]
        self.norm1 = nn.LayerNorm(width, EPSILON)
        self.tokens = mixer_mlp(places, options["token_hidden"], dropout)
        self.norm2 = nn.LayerNorm(width, EPSILON)
        self.channels = mixer_mlp(width, options["channel_hidden"], dropout)

    def forward(self, x):
        mixed = self.tokens(self.norm1(x).transpose(1, 2))
        h = x + mixed.transpose(1, 2)
        return h + self.channels(self.norm2(h))


def mlp_mixer(options, sample):
    places = places_of(options, sample)
    return [MixerPatches(options, sample),
            *(MixerLayer(options, places) for _ in range(options["layers"])),
            ClassToken(options["width"], sample["classes"], True, EPSILON)]
