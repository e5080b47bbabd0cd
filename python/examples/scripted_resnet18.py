#!/usr/bin/env python3
"""A ResNet-18 as its authors wrote it in PyTorch, trained in two blocks on
CIFAR-10 by the program `sluice`, and taken back: the module is scripted, the run
trains the script, and load_state_dict() gives the module the run's weights.

usage: scripted_resnet18.py [--method NAME] [--folder DIR] [KEY=VALUE...]

--method: local_loss (default), or delayed_gradient (DDG), with the configs
    torchscript_resnet18*.toml of experiments/configs/cifar10.
--folder: a folder, made if need be, for the script before (resnet18.pt) and
    after (trained.pt), the run, and the module's state_dict (resnet18.pth).
KEY=VALUE: keys of the config, as on the command line of `sluice run`; a try of
    minutes: epochs=1 limit.train=5000 limit.evaluation=1000.

Wants torch of the version that the program is linked with, the package sluice
(pip install ./python, or PYTHONPATH=python), and the data set: `sluice data
fetch cifar10`, or SLUICE_DATA.
"""
import argparse
import pathlib
import tomllib

import torch

import sluice
from residual_network import resnet18
from sluice.program import call

CONFIGS = (pathlib.Path(__file__).resolve().parents[2]
           / "experiments/configs/cifar10")
METHODS = {
    "local_loss": "torchscript_resnet18.toml",
    "delayed_gradient": "torchscript_resnet18_delayed_gradient.toml",
}


def train(net, method, folder, overrides):
    """Trains a script of the module; the Run."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "resnet18.pt"
    torch.jit.script(net).save(str(script))
    return sluice.run(CONFIGS / METHODS[method], folder=folder / "run",
                      **{"model.file": str(script)} | overrides)


def load_back(net, run):
    """Gives the module the weights and statistics of the run."""
    trained = run.folder.parent / "trained.pt"
    call("export", run.folder, "--torchscript", trained)
    net.load_state_dict(torch.jit.load(str(trained)).state_dict())
    return net


def logits_of(net, inputs):
    """In the run's layout of images, on which the bits of a convolution
    depend."""
    layout = torch.channels_last
    net = net.to(memory_format=layout).eval()
    with torch.no_grad():
        return net(inputs.contiguous(memory_format=layout))


def greatest_gap(net, run, samples):
    """Between the module's logits and those of the program."""
    torch.set_num_threads(run.config["threads"])
    theirs = run.evaluate(samples=samples)
    return (logits_of(net, theirs["inputs"])
            - theirs["logits"]).abs().max().item()


def overrides_of(words):
    """KEY=VALUE, where VALUE is one of TOML, or else a text."""
    found = {}
    for key, _, value in (word.partition("=") for word in words):
        try:
            found[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[key] = value
    return found


def main(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", choices=METHODS, default="local_loss")
    parser.add_argument("--folder", type=pathlib.Path,
                        default=pathlib.Path("scripted-resnet18"))
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    asked = parser.parse_args(arguments)
    net = resnet18()
    run = train(net, asked.method, asked.folder.resolve(),
                overrides_of(asked.overrides))
    load_back(net, run)
    torch.save(net.state_dict(), asked.folder / "resnet18.pth")
    print(run)
    print(f"Its weights in the module: logits of 256 test images differ from "
          f"the program's by at most {greatest_gap(net, run, 256):g}")


if __name__ == "__main__":
    main()
