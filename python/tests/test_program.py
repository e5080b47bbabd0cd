"""Which program is found, and how its errors arrive."""
import os
import subprocess
import sys

import pytest

import sluice
from sluice import errors, program
from sluice.program import call


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


def test_the_variable_comes_before_the_path(here, monkeypatch):
    named = script(here / "named", "echo named")
    script(here / "bin/sluice", "echo found")
    monkeypatch.setenv("PATH", f"{here / 'bin'}:{os.environ['PATH']}")
    monkeypatch.delenv("SLUICE_PROGRAM", raising=False)
    assert call("help") == "found\n"
    monkeypatch.setenv("SLUICE_PROGRAM", str(named))
    assert call("help") == "named\n"


def test_the_program_of_a_wheel_comes_before_the_path(here, monkeypatch):
    """Whose command `sluice` is that program, with this Python's trackers."""
    script(here / "bin/sluice", "echo found")
    monkeypatch.setenv("PATH", f"{here / 'bin'}:{os.environ['PATH']}")
    monkeypatch.delenv("SLUICE_PROGRAM", raising=False)
    monkeypatch.delenv("SLUICE_PYTHON", raising=False)
    own = script(here / "package/bin/sluice", 'echo "own $* $SLUICE_PYTHON"')
    assert call("help") == "found\n"
    monkeypatch.setattr(program, "OWN", own)
    assert call("help") == "own help \n"
    command = ("import pathlib, sys; from sluice import program; "
               f"program.OWN = pathlib.Path({str(own)!r}); program.main()")
    done = subprocess.run([sys.executable, "-c", command, "list"], text=True,
                          check=True, capture_output=True)
    assert done.stdout == f"own list {sys.executable}\n"


def test_the_build_of_the_checkout_is_found_from_below(here, monkeypatch):
    script(here / "build/release/sluice", "echo built")
    (here / "deep/er").mkdir(parents=True)
    monkeypatch.chdir(here / "deep/er")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("SLUICE_PROGRAM", raising=False)
    assert sluice.find_program() == str(here / "build/release/sluice")


def test_a_wrong_variable_is_one_clear_error(here, monkeypatch):
    monkeypatch.setenv("SLUICE_PROGRAM", str(here / "absent"))
    with pytest.raises(sluice.SluiceError, match="SLUICE_PROGRAM: .*absent"):
        sluice.find_program()


def test_an_error_is_the_line_of_the_program(here, monkeypatch):
    lines = "echo 'note: x' >&2; echo 'sluice: blocks: 9 is no' >&2; exit 2"
    monkeypatch.setenv("SLUICE_PROGRAM", str(script(here / "fails", lines)))
    with pytest.raises(sluice.SluiceError) as raised:
        call("plan", "x.toml")
    assert str(raised.value) == "blocks: 9 is no"
    assert raised.value.status == 2


def test_a_loss_that_is_nan_has_an_error_of_its_own():
    error = errors.error_of(5, "sluice: block 1: the loss is nan\n", "run")
    assert isinstance(error, sluice.Diverged)
    assert not isinstance(errors.error_of(1, "", "run"), sluice.Diverged)


def test_a_model_without_torch_names_it():
    script = ("import sys; sys.modules['torch'] = None\nimport sluice\n"
              "try: sluice.load_model('any.safetensors')\n"
              "except sluice.MissingPackage as error: print(error)")
    said = subprocess.run([sys.executable, "-c", script], text=True,
                          capture_output=True, check=True).stdout
    assert said == "model() needs the package torch: pip install torch\n"


def test_a_missing_package_is_named():
    with pytest.raises(sluice.MissingPackage, match="pip install no_such_one"):
        errors.need("no_such_one.part", "this")


def test_the_package_has_the_programs_version(program):
    assert call("--version").startswith(sluice.__version__ + " ")
