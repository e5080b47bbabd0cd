"""Trackers that are told of a run while it goes on, each by a process of its
own: python -m sluice.track."""
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable
from typing import IO

from sluice.errors import SluiceError, one_line

NAMES = ("wandb", "mlflow")
ALWAYS = "tensorboard"  # its file is written without a process


def names_of(logger: str | Iterable[str] | None) -> list[str]:
    """A name or several, checked, as a list of those that want a process."""
    names = [logger] if isinstance(logger, str) else list(logger or ())
    for name in names:
        if name not in (*NAMES, ALWAYS):
            raise SluiceError(f"logger: there is no {name!r}; there are: "
                              f"{', '.join((*NAMES, ALWAYS))}")
    return [name for name in names if name != ALWAYS]


class Loggers:
    """The processes of a run that has begun."""

    def __init__(self, names: Iterable[str],
                 folder: str | os.PathLike[str]) -> None:
        self._folder = pathlib.Path(folder)
        self._processes = [(name, *self._start(name)) for name in names]

    def _start(self, name: str) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
        said = tempfile.TemporaryFile()
        return subprocess.Popen(
            [sys.executable, "-m", "sluice.track", name, self._folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said,
            start_new_session=True), said

    def finish(self) -> None:
        """Waits until they have been told all of a run that is over. What went
        wrong there is a warning: the run itself is good."""
        for name, process, said in self._processes:
            if process.wait() != 0:
                said.seek(0)
                text = one_line(said.read().decode(errors="replace"))
                warnings.warn(f"{name}: {text}", stacklevel=4)
        self._processes = []
