"""One line with the remedy where the native extension isn't there, or can't be
used or built."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
LOAD = """
import sys, types
import sluice
from sluice import extension
if sys.argv[1] == "none":
    sys.modules["torch"] = None
else:
    sys.modules["torch"] = types.SimpleNamespace(__version__=sys.argv[1])
try:
    extension.native()
except sluice.SluiceError as error:
    print(error)
"""


def built(folder, torch="2.13.0", python=PYTHON):
    (folder / "_native_build.py").write_text(
        f'TORCH = "{torch}"\nPYTHON = "{python}"\n')
    return folder


def said(folder, torch="2.13.0+cpu"):
    """What native() says with the extension in a folder, beside such a torch."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD, torch], text=True, check=True,
        env={**os.environ, "SLUICE_EXTENSION": str(folder)},
        stdout=subprocess.PIPE).stdout
    assert done.count("\n") == 1  # one line
    return done


def test_an_absent_extension_names_the_script_and_the_wheel(tmp_path):
    line = said(tmp_path)
    assert str(tmp_path) in line
    assert "scripts/python-extension" in line and "scripts/wheel" in line


def test_another_torch_has_two_remedies(tmp_path):
    line = said(built(tmp_path), torch="2.12.1")
    assert "was built for torch 2.13.0" in line
    assert "pip install torch==2.13.0" in line
    assert "scripts/setup --torch FOLDER" in line


def test_another_python_is_named(tmp_path):
    assert "start Python 3.7" in said(built(tmp_path, python="3.7"))


def test_without_torch_its_version_is_named(tmp_path):
    assert "pip install torch==2.13.0" in said(built(tmp_path), torch="none")


def test_a_build_that_did_not_end_is_named(tmp_path):
    assert "scripts/python-extension" in said(built(tmp_path))


def test_a_library_that_cannot_be_loaded_is_one_line(tmp_path):
    from importlib.machinery import EXTENSION_SUFFIXES

    (built(tmp_path) / f"_native{EXTENSION_SUFFIXES[0]}").write_text("no library")
    line = said(tmp_path)
    assert "can't be loaded" in line and "scripts/python-extension" in line


@pytest.fixture
def checkout(tmp_path):
    """The scripts, with a chosen LibTorch and a Python that answers nothing."""
    for name in ("python-extension", "setup", "shared"):
        copy = (shutil.copytree if name == "shared" else shutil.copy)
        (tmp_path / "scripts").mkdir(exist_ok=True)
        copy(ROOT / "scripts" / name, tmp_path / "scripts" / name)
    torch = tmp_path / "torch"
    write(torch / "include/ATen/ATen.h")
    write(torch / "include/torch/headeronly/version.h",
          "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 13\n"
          "#define TORCH_VERSION_PATCH 0\n")
    write(tmp_path / "build/libtorch", f"{torch}\n")
    command(tmp_path / ".venv/bin/python", "exit 0")
    command(tmp_path / "bin/sudo", '[[ $1 == -v ]] || exec "$@"')
    command(tmp_path / "bin/apt-get", 'echo "E: no network"; exit 100')
    command(tmp_path / "bin/dpkg-query",
            'for name in "${@:4}"; do [[ $name == "$ABSENT" ]] ||'
            ' printf "installed:%s " "$name"; done')
    return tmp_path


def write(file, text=""):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def command(file, text):
    write(file, f"#!/bin/bash\n{text}\n")
    file.chmod(0o755)


def last_line(checkout, absent=""):
    """The line with which scripts/python-extension fails without a package."""
    done = subprocess.run(
        [checkout / "scripts/python-extension"], text=True, capture_output=True,
        env={**os.environ, "ABSENT": absent,
             "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}"})
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


def test_the_script_names_the_compiler_that_is_absent(checkout):
    assert last_line(checkout, absent="g++").startswith(
        "sluice: apt-get can't install g++: E: no network")


def test_the_script_names_headers_that_are_absent(checkout):
    command(checkout / ".venv/bin/python", "exit 1")
    line = last_line(checkout)
    assert line.startswith("sluice: ") and "Python.h" in line


def test_the_script_names_a_torch_that_is_for_cpp_only(checkout):
    line = last_line(checkout)
    assert "is for C++ only" in line and "scripts/setup --torch" in line
