"""Compares what PyTorch makes of an exported model with what we made of it.

usage: same_logits.py MODEL.safetensors LOGITS.safetensors

MODEL: of `sluice export`. LOGITS: of `sluice eval --logits`, with one thread.
Fails unless all the logits have the same bits.
"""
import json
import sys

import torch
from plain_models import model_for
from safetensors import safe_open
from safetensors.torch import load_file


def laid_out(tensor):
    """As our blocks have them, whose convolutions' bits depend on it."""
    if tensor.dim() != 4:
        return tensor
    return tensor.contiguous(memory_format=torch.channels_last)


def main(model_file, logits_file):
    with safe_open(model_file, "pt") as file:
        notes = file.metadata()
    options = json.loads(notes["model"])
    model = model_for(options, json.loads(notes["sample"]))
    model.load_state_dict(load_file(model_file), strict=True)
    ours = load_file(logits_file)
    inputs = ours["inputs"].clone()
    if inputs.dim() == 4:
        inputs = laid_out(inputs)
        for parameter in model.parameters():
            parameter.data = laid_out(parameter.data)
    torch.set_num_threads(1)
    with torch.no_grad():
        theirs = model.eval()(inputs)
        untrained = model_for(options, json.loads(notes["sample"]))(inputs)
    logits = ours["logits"]
    assert theirs.shape == logits.shape, (theirs.shape, logits.shape)
    gap = (theirs - logits).abs().max().item()
    assert torch.equal(theirs, logits), f"logits differ by up to {gap}"
    assert not torch.allclose(untrained, logits, atol=1e-3)
    print(f"PyTorch {torch.__version__} gives the bits of our logits: "
          f"{options['name']}, {tuple(logits.shape)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
