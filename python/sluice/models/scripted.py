"""The model `torchscript`: the file that the run was given, as one layer.

torch.jit.load() runs what a file wants to, so the program looks at it first.
"""
import os
import re

import torch

from sluice.errors import SluiceError
from sluice.program import call

LAYER = re.compile(r"layers\.\d+\.")


def torchscript(options, _sample):
    path = options["file"]
    if not os.path.isfile(path):
        raise SluiceError(f"{path}: the TorchScript file of the run isn't "
                          "there; `sluice export RUN --torchscript FILE` wants "
                          "it too")
    if not options.get("trust", False):
        call("check-script", path)
    return [torch.jit.load(path, map_location="cpu")]


def as_one_layer(tensors):
    """Names of a cut model, "layers.2.fc.weight", as "layers.0.fc.weight"."""
    return {LAYER.sub("layers.0.", name, count=1): tensor
            for name, tensor in tensors.items()}
