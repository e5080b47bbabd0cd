"""Finds and loads the native extension, which is built for one torch and one
Python."""
import functools
import importlib.machinery
import importlib.util
import os
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

from sluice.errors import SluiceError, need
from sluice.program import checkouts

VARIABLE = "SLUICE_EXTENSION"
BUILT = pathlib.Path("build/release/python")
HOW = "build it with scripts/python-extension"


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


def check(folder: pathlib.Path, torch: Any) -> None:
    """Another torch would fail somewhere in its symbols, or later."""
    build = loaded("sluice._native_build", folder / "_native_build.py")
    here = torch.__version__.partition("+")[0]
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    if (build.TORCH, build.PYTHON) != (here, python):
        raise SluiceError(
            f"the native extension in {folder} was built for torch "
            f"{build.TORCH} and Python {build.PYTHON}, and here are torch "
            f"{here} and Python {python}: {HOW}")


@functools.cache
def native() -> Any:
    """The module sluice._native. Raises SluiceError."""
    torch = need("torch", "sluice.Network")
    for folder in folders():
        if not (folder / "_native_build.py").exists():
            continue
        check(folder, torch)
        file = file_in(folder)
        if file is not None:
            return loaded("sluice._native", file)
    where = os.environ.get(VARIABLE) or f"the package, {BUILT} of a checkout"
    raise SluiceError(f"sluice.Network needs the native extension, which isn't "
                      f"there ({where}): {HOW}")
