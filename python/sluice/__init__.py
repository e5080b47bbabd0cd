"""Sluice from Python: starts, follows and reads runs of the program `sluice`.

    import sluice
    run = sluice.run("experiments/configs/quickstart/local_loss.toml", epochs=1)
    run.evaluations                # a pandas frame
    run.curves("accuracy").plot()
    model = run.model()            # a torch.nn.Module with its weights

docs/python.md has more.
"""
from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sluice import config as _configs
from sluice import data
from sluice.config import Space
from sluice.errors import Diverged, MissingPackage, SluiceError
from sluice.network import Network
from sluice.program import call as _call
from sluice.program import find_program
from sluice.runs import Run, run
from sluice.sweeps import Sweep, sweep
from sluice.version import __version__

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Diverged", "MissingPackage", "Network", "Plan", "Run",
           "SluiceError", "Space", "Sweep", "__version__", "data",
           "find_program", "load", "load_model", "plan", "run", "sweep"]


def __dir__() -> list[str]:
    """Names that a notebook completes."""
    return sorted(__all__)


class Plan(str):
    """A text that notebooks show as it is: what plan() returns."""

    def __repr__(self) -> str:
        return str(self)


def plan(config: _configs.Config, *, turns: int | None = None,
         arguments: Iterable[object] = (), **overrides: Any) -> Plan:
    """The schedule of each block as a timeline, as `sluice plan` draws it.

        print(sluice.plan("config.toml", blocks=4, turns=8))

    turns: how many are drawn. arguments: more of the command line, such as
    ["--calibrate"]. config and overrides are those of run().
    """
    with _configs.as_file(config) as file:
        return Plan(_call(
            "plan", file, *_configs.overrides(overrides),
            *([] if turns is None else ["--turns", turns]), *arguments))


def load(folder: str | os.PathLike[str]) -> Run | Sweep:
    """The Run, or the Sweep, in a folder.

        run = sluice.load("runs/mine-1")

    Raises SluiceError where there is none.
    """
    folder = pathlib.Path(folder)
    if (folder / "sweep.json").exists():
        return Sweep(folder)
    if not folder.exists():
        raise SluiceError(f"{folder}: isn't there; give the folder of a run")
    if not (folder / "config.toml").exists():
        raise SluiceError(f"{folder}: holds no run: it has no config.toml")
    return Run(folder)


def load_model(file: str | os.PathLike[str]) -> nn.Module:
    """The model in a file that `sluice export` wrote, as an nn.Module in
    evaluation mode, with its weights.

        logits = sluice.load_model("model.safetensors")(images)

    Needs no program, unless it is a scripted network: the program looks at its
    file before torch loads it. Its logits are those of `sluice eval`, bit for
    bit with the same LibTorch on the same machine and number of threads.
    """
    from sluice.models import model_of
    from sluice.safetensors import File

    return model_of(File(os.fspath(file)))
