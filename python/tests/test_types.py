"""Type hints and docstrings of what users call."""
import inspect
import os
import pathlib
import subprocess
import sys

import pytest
import sluice

PACKAGE = pathlib.Path(__file__).resolve().parents[1]


def test_mypy_finds_nothing():
    pytest.importorskip("mypy")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", os.devnull], cwd=PACKAGE,
        text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_says_that_it_has_type_hints():
    assert (PACKAGE / "sluice/py.typed").exists()


@pytest.mark.parametrize("name", [
    name for name in sluice.__all__
    if name not in ("__version__", "MissingPackage", "Plan")])
def test_every_public_name_has_an_example(name):
    shown = [line for line in inspect.getdoc(getattr(sluice, name)).splitlines()
             if line.startswith("    ") and ("(" in line or "." in line)]
    assert shown


@pytest.mark.parametrize("module", [sluice, sluice.data])
def test_a_notebook_completes_the_public_names_alone(module):
    assert dir(module) == sorted(module.__all__)


@pytest.mark.parametrize("kind", [sluice.Run, sluice.Sweep, sluice.Network])
def test_every_public_member_has_a_docstring(kind):
    for name, member in vars(kind).items():
        if not name.startswith("_") and (callable(member)
                                         or isinstance(member, property)):
            assert inspect.getdoc(member), name
