"""Data sets as the program reads them, for a training loop of your own.

    digits = sluice.data.dataset("drawn_digits")
    images, labels = digits.tensors

docs/python.md has more.
"""
from __future__ import annotations

import os
import pathlib
import tempfile
from typing import TYPE_CHECKING, Any

from sluice import config as configs
from sluice.errors import SluiceError, need
from sluice.program import call
from sluice.safetensors import File

if TYPE_CHECKING:
    from torch.utils.data import TensorDataset

SPLITS = {"train": ["--train"], "test": [], "validation": ["--validation"]}
ALL = 10**9  # more samples than a set in memory has

# `sluice eval` writes samples for a run only: the run that takes the least time.
SMALLEST_RUN = {
    "name": "data", "turns": 1, "batch_size": 1, "blocks": 1, "threads": 1,
    "engine": "virtual", "model": {"name": "mlp", "hidden": []},
    "optimizer": {"name": "sgd", "lr": 1e-9}, "limit": {"evaluation": 1}}
# Tables and keys of [data] that change training batches, not samples.
OF_BATCHES = {"augment", "mixup", "assist", "echo", "prefetch"}

__all__ = ["dataset"]


def __dir__() -> list[str]:
    """Names that a notebook completes."""
    return __all__


def dataset(name: str = "drawn_digits", split: str = "train", *,
            samples: int | None = None,
            root: str | os.PathLike[str] | None = None,
            **settings: Any) -> TensorDataset:
    """Images and labels of a data set, as a torch TensorDataset.

        digits = sluice.data.dataset("drawn_digits")
        for images, labels in DataLoader(digits, batch_size=64, shuffle=True):
            net.step(images, labels)

    name: a set of images of `sluice list datasets`: "drawn_digits" (the
        quickstart's, needs no file), "mnist", "cifar10", "image_folder", ...
    split: "train", "test", or "validation" with validation=0.1.
    samples: only so many, the first ones; by default all.
    root: the folder of the files; by default that of SLUICE_DATA. The command
        `sluice data fetch mnist --root FOLDER` fills it.
    settings: keys of the config's [data]: train=1000, folder="photos".

    Images are float32 [N, C, H, W], scaled as a run scales them and never
    augmented; labels are int64 [N]. All of them are in memory: `.tensors` is the
    pair. The first samples are those of the files, in their order.

    Needs torch and the program, not the native extension. Raises SluiceError.
    """
    need("torch", "sluice.data")
    _check(split, settings)
    keys = {"name": name, **settings}
    if root is not None:
        keys["root"] = os.fspath(root)
    keys = {f"data.{key}": value for key, value in keys.items()}
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        run = pathlib.Path(folder) / "run"
        with configs.as_file(SMALLEST_RUN) as file:
            call("run", file, *configs.overrides(keys), "--dir", run)
        written = pathlib.Path(folder) / "samples.safetensors"
        call("eval", run, "limit.evaluation=0", *SPLITS[split], "--logits",
             written, "--samples", ALL if samples is None else samples)
        return _dataset_of(File(written))


def _check(split: str, settings: dict[str, Any]) -> None:
    if split not in SPLITS:
        raise SluiceError(f"there is no split {split!r}; there are "
                          f"{', '.join(SPLITS)}")
    if split == "validation" and "validation" not in settings:
        raise SluiceError("the validation split is a share of the training "
                          "split: dataset(..., validation=0.1)")
    for key in settings:
        if key.replace("__", ".").partition(".")[0] in OF_BATCHES:
            raise SluiceError(f"data.{key} changes the batches of a run, and "
                              "dataset() has samples: do it in your loop")


def _dataset_of(file: File) -> TensorDataset:
    from torch.utils.data import TensorDataset

    tensors = file.torch()
    return TensorDataset(tensors["inputs"], tensors["labels"].long())
