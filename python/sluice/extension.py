"""Finds and loads the native extension, which is built for one torch and one
Python."""
import functools
import importlib.machinery
import importlib.util
import os
import pathlib
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from sluice.errors import MissingPackage, SluiceError, need
from sluice.program import checkouts

VARIABLE = "SLUICE_EXTENSION"
BUILT = pathlib.Path("build/release/python")
HOW = "build it with scripts/python-extension"
WHEEL = "install the wheel that scripts/wheel makes on another machine"


def folders() -> Iterator[pathlib.Path]:
    """Where it may be: the variable's folder, or else this package, or else
    the build of a checkout around the current folder or this package."""
    if os.environ.get(VARIABLE):
        yield pathlib.Path(os.environ[VARIABLE])
        return
    yield pathlib.Path(__file__).resolve().parent
    yield from (folder / BUILT for folder in checkouts())


def file_in(folder: pathlib.Path) -> pathlib.Path | None:
    """The extension for this Python in a folder, or None."""
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        file = folder / f"_native{suffix}"
        if file.exists():
            return file
    return None


def loaded(name: str, file: pathlib.Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Build(NamedTuple):
    """What the extension in a folder was built for."""

    folder: pathlib.Path
    torch: str
    python: str


def find_build() -> Build:
    """The first one that is found, for whatever torch. Raises SluiceError."""
    for folder in folders():
        if (folder / "_native_build.py").exists():
            build = loaded("sluice._native_build", folder / "_native_build.py")
            return Build(folder, build.TORCH, build.PYTHON)
    where = os.environ.get(VARIABLE) or f"the package, {BUILT} of a checkout"
    raise SluiceError(f"sluice.Network needs the native extension, which isn't "
                      f"there ({where}): in a checkout {HOW}; without a "
                      f"compiler {WHEEL}")


def torch_for(build: Build) -> Any:
    """The module torch. Raises SluiceError where it isn't the one of the build,
    which would fail somewhere in its symbols, or later."""
    try:
        torch = need("torch", "sluice.Network")
    except MissingPackage:
        raise MissingPackage(
            f"sluice.Network needs the package torch {build.torch}: pip install "
            f"torch=={build.torch}, or start .venv/bin/python of the checkout"
        ) from None
    here = torch.__version__.partition("+")[0]
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    if (build.torch, build.python) != (here, python):
        raise SluiceError(
            f"the native extension in {build.folder} was built for torch "
            f"{build.torch} and Python {build.python}, and here are torch "
            f"{here} and Python {python}: {remedy(build, here, python)}")
    return torch


def remedy(build: Build, torch: str, python: str) -> str:
    """What to do where torch and Python are others than those of the build."""
    if build.python != python:
        return (f"start Python {build.python}, such as .venv/bin/python of the "
                "checkout")
    return (f"pip install torch=={build.torch}; or, to keep {torch}, call "
            "scripts/setup --torch FOLDER with the folder of its package, then "
            "scripts/python-extension")


@functools.cache
def native() -> Any:
    """The module sluice._native. Raises SluiceError."""
    build = find_build()
    torch_for(build)
    file = file_in(build.folder)
    if file is None:
        raise SluiceError(f"{build.folder} holds no native extension for Python "
                          f"{build.python}: {HOW}")
    try:
        return loaded("sluice._native", file)
    except ImportError as error:
        raise SluiceError(f"the native extension can't be loaded: {error}: "
                          f"{HOW}") from None
