#!/usr/bin/env python3
"""A tuned training loop in PyTorch on one GPU: data on it (images as bytes,
normalised there; tokens), channels-last, fused optimizers, cudnn.benchmark,
TF32, autocast. Prints one line of JSON: samples per second of STEPS steps after
as many others, and the peak of memory in MiB.

usage: rival.py NET PRECISION STEPS [plain|compiled|reduce-overhead]
                [--device DEVICE] [--batch N]

NET: conv, resnet18, resnet18_small, vit, gpt, gpt_small. PRECISION: fp32 (TF32
products) or bf16.
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import nn

SAMPLES = 2560
VOCABULARY = 65


def conv3x3(inputs, outputs, stride=1):
    return nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            conv3x3(inputs, outputs, stride), nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True), conv3x3(outputs, outputs),
            nn.BatchNorm2d(outputs))
        self.skip = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.skip = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x), inplace=True)


def resnet18():
    layers = [conv3x3(3, 64), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    width = 64
    for i, outputs in enumerate((64, 128, 256, 512)):
        layers += [BasicBlock(width, outputs, 1 if i == 0 else 2),
                   BasicBlock(outputs, outputs, 1)]
        width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(512, 10))


def small_conv():
    layers = []
    for inputs, outputs in ((3, 128), (128, 32), (32, 256)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1),
                   nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4096, 10))


class TransformerLayer(nn.Module):
    def __init__(self, width, heads, of_text):
        super().__init__()
        self.heads, self.of_text = heads, of_text
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.hidden = nn.Linear(width, 4 * width)
        self.output = nn.Linear(4 * width, width)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(
            n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v,
                                               is_causal=self.of_text)
        x = x + self.projection(mixed.transpose(1, 2).reshape(n, t, c))
        hidden = F.gelu(self.hidden(self.norm2(x)),
                        approximate="tanh" if self.of_text else "none")
        return x + self.output(hidden)


class Tokens(nn.Module):
    def __init__(self, width, context):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, width)
        self.position = nn.Parameter(torch.zeros(context, width))

    def forward(self, tokens):
        return self.token(tokens) + self.position


class Vit(nn.Module):
    def __init__(self, width=384, layers=12, heads=6, patch=4):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(
            torch.zeros(1 + (32 // patch) ** 2, width))
        self.layers = nn.Sequential(
            *(TransformerLayer(width, heads, False) for _ in range(layers)))
        self.classify = nn.Sequential(nn.LayerNorm(width),
                                      nn.Linear(width, 10))

    def forward(self, images):
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        first = self.class_token.expand(len(images), 1, -1)
        tokens = torch.cat((first, tokens), 1) + self.position
        return self.classify(self.layers(tokens)[:, 0])


def gpt(width, layers, heads, context):
    return nn.Sequential(
        Tokens(width, context),
        *(TransformerLayer(width, heads, True) for _ in range(layers)),
        nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False))


def sgd(weights, fused):
    return torch.optim.SGD(weights, 0.01, momentum=0.9, nesterov=True,
                           weight_decay=5e-4, fused=fused)


def adamw(weights, fused):
    return torch.optim.AdamW(weights, 1e-4, weight_decay=0.05, fused=fused)


NETS = {  # network, batch, optimizer, context of a text
    "conv": (small_conv, 64, sgd, 0),
    "resnet18": (resnet18, 512, sgd, 0),
    "resnet18_small": (resnet18, 64, sgd, 0),
    "vit": (Vit, 512, adamw, 0),
    "gpt": (lambda: gpt(768, 12, 12, 1024), 8, adamw, 1024),
    "gpt_small": (lambda: gpt(128, 4, 4, 64), 16, adamw, 64),
}


def images(device):
    """Endless random batches of `size` are drawn by the function returned."""
    pixels = torch.randint(256, (SAMPLES, 32, 32, 3), dtype=torch.uint8,
                           device=device)
    labels = torch.randint(10, (SAMPLES,), device=device)
    mean = torch.tensor([125., 123., 114.], device=device)
    deviation = torch.tensor([63., 62., 67.], device=device)

    def batch(chosen):
        normal = (pixels[chosen].float() - mean) / deviation
        return normal.permute(0, 3, 1, 2), labels[chosen]
    return batch


def texts(device, context):
    tokens = torch.randint(VOCABULARY, (SAMPLES * context + 1,), device=device)
    window = torch.arange(context + 1, device=device)

    def batch(chosen):
        lines = tokens[chosen[:, None] * context + window]
        return lines[:, :-1], lines[:, 1:]
    return batch


def orders(size, device):
    while True:
        for chosen in torch.randperm(SAMPLES, device=device).split(size):
            if len(chosen) == size:
                yield chosen


def synchronize(device):
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("net", choices=NETS)
    parser.add_argument("precision", choices=["fp32", "bf16"])
    parser.add_argument("steps", type=int)
    parser.add_argument("mode", nargs="?", default="plain",
                        choices=["plain", "compiled", "reduce-overhead"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch", type=int)
    given = parser.parse_args()
    device = given.device
    on_gpu = device.startswith("cuda")
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    make, size, optimizer_of, context = NETS[given.net]
    size = given.batch or size
    net = make().to(device)
    if not context:
        net = net.to(memory_format=torch.channels_last)
    optimizer = optimizer_of(net.parameters(), fused=True)
    forward = net
    if given.mode != "plain":
        forward = torch.compile(net, mode="reduce-overhead"
                                if given.mode == "reduce-overhead" else None)
    batch = texts(device, context) if context else images(device)
    order = orders(size, device)

    def step():
        inputs, labels = batch(next(order))
        with torch.autocast("cuda" if on_gpu else "cpu", torch.bfloat16,
                            enabled=given.precision == "bf16"):
            loss = F.cross_entropy(forward(inputs).flatten(0, -2),
                                   labels.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(given.steps):
        step()
    synchronize(device)
    start = time.monotonic()
    for _ in range(given.steps):
        loss = step()
    loss.item()
    synchronize(device)
    rate = given.steps * size / (time.monotonic() - start)
    peak = torch.cuda.max_memory_allocated() >> 20 if on_gpu else None
    print(json.dumps({"samples_s": round(rate, 1), "peak_mib": peak}))


if __name__ == "__main__":
    main()
