"""In an environment into which a wheel of scripts/wheel was installed: all that
it brings is used from there, the program and the extension in Python processes.

usage: use_wheel.py
"""
import functools
import pathlib
import subprocess
import sys

import torch
from torch import nn

import sluice
from sluice.extension import native

CONFIG = {
    "name": "wheel", "engine": "processes", "threads": 1, "blocks": 2,
    "turns": 4, "batch_size": 16,
    "data": {"name": "drawn_digits", "train": 64, "test": 32},
    "model": {"name": "mlp", "hidden": [16]},
    "boundary": {"policy": "local_loss"},
}


def check_places():
    package = pathlib.Path(sluice.__file__).resolve().parent
    assert package.is_relative_to(pathlib.Path(sys.prefix).resolve()), package
    assert pathlib.Path(sluice.find_program()).parent == package / "bin"
    assert pathlib.Path(native().__file__).parent == package
    command = pathlib.Path(sys.executable).parent / "sluice"
    version = subprocess.run([command, "--version"], check=True, text=True,
                             capture_output=True).stdout
    assert torch.__version__.partition("+")[0] in version, version


def check_network():
    layers = [functools.partial(nn.Linear, 4, 4)] * 2
    with sluice.Network(layers, torch.zeros(1, 4), cuts=[1], threads=1,
                        boundaries="local_loss", engine="processes") as net:
        before = net.weights()
        losses = net.step(torch.ones(2, 4), torch.tensor([0, 1])).losses
        assert len(losses) == 2
        assert not torch.equal(before["layers.0.weight"],
                               net.weights()["layers.0.weight"])


def main():
    check_places()
    run = sluice.run(CONFIG, folder="run")
    assert run.state == "done", run.state
    check_network()
    print(f"a wheel of {pathlib.Path(sluice.__file__).parent} trains with torch "
          f"{torch.__version__}")


if __name__ == "__main__":
    main()
