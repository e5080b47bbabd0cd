"""Finds the program `sluice` and runs its commands."""
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from typing import NoReturn

from sluice.errors import SluiceError, error_of

VARIABLE = "SLUICE_PROGRAM"
BUILT = pathlib.Path("build/release/sluice")
OWN = pathlib.Path(__file__).resolve().parent / "bin/sluice"  # of a wheel


def checkouts() -> Iterator[pathlib.Path]:
    """Folders that may be a checkout: above the current one and this file."""
    for start in (pathlib.Path.cwd(), pathlib.Path(__file__).resolve().parent):
        yield from (start, *start.parents)


def find_program() -> str:
    """The path of the program `sluice`.

        print(sluice.find_program())      # /home/me/sluice/build/release/sluice

    The variable SLUICE_PROGRAM, or else this package's own, or else PATH, or
    else the build of the checkout around the current folder or this package.
    Raises SluiceError.
    """
    named = os.environ.get(VARIABLE)
    if named:
        if is_program(named):
            return str(pathlib.Path(named).resolve())
        raise SluiceError(f"{VARIABLE}: {named} is no program that can be run")
    if is_program(OWN):
        return str(OWN)
    on_path = shutil.which("sluice")
    if on_path:
        return on_path
    for folder in checkouts():
        if is_program(folder / BUILT):
            return str(folder / BUILT)
    raise SluiceError(
        f"the program sluice is not there: it is neither in {VARIABLE}, nor on "
        f"PATH, nor {BUILT} of a checkout around {pathlib.Path.cwd()}; build it "
        "with scripts/build, or name it in that variable")


def is_program(path: str | os.PathLike[str]) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def call(*arguments: object, accept: Collection[int] = (0,)) -> str:
    """What a command prints. Raises SluiceError with its one line."""
    command = [find_program(), *map(str, arguments)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, check=False)
    if done.returncode not in accept:
        raise error_of(done.returncode, done.stderr, "sluice " + command[1])
    return done.stdout


def main() -> NoReturn:
    """The command `sluice` of a wheel's environment becomes the program, whose
    trackers are of this Python; `sluice quickstart` is Python."""
    if sys.argv[1:2] == ["quickstart"]:
        from sluice import quickstart

        sys.exit(quickstart.main(sys.argv[2:]))
    os.environ.setdefault("SLUICE_PYTHON", sys.executable)
    os.execv(OWN, ["sluice", *sys.argv[1:]])
