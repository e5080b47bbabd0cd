"""Reads metrics.jsonl, also while a run writes it."""
import fcntl
import json
import os
import pathlib
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

from sluice.errors import SluiceError

PERIOD = 0.1  # s, between two looks at a file
NUMBERS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux


def record_of(line: bytes, place: str) -> dict[str, Any]:
    """A line as a dict; NaN and infinities, written as texts, are numbers."""
    try:
        record = json.loads(line)
    except ValueError as error:
        raise SluiceError(f"{place}: is damaged: {error}") from None
    return {key: NUMBERS.get(value, value) if isinstance(value, str) else value
            for key, value in record.items()}


class Reader:
    """The records of a run that have come since the last look.

    What is but half a line is none yet. A file that has been replaced, as by a
    run that goes back to a checkpoint, is read from its start, and of it what
    was not seen before.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = pathlib.Path(folder) / "metrics.jsonl"
        self._file: int | None = None  # its number on the disk
        self._at = 0
        self._line = 0
        self._seen: set[int] = set()
        self._is_again = False

    def read(self) -> list[dict[str, Any]]:
        """A list of dicts; empty where there is no file yet."""
        try:
            file = open(self.path, "rb")
        except FileNotFoundError:
            return []
        with file:
            self._find_place(os.fstat(file.fileno()))
            file.seek(self._at)
            whole, newline, _ = file.read().rpartition(b"\n")
        if not newline:
            return []
        self._at += len(whole) + 1
        return [record for line in whole.split(b"\n")
                if (record := self._take(line)) is not None]

    def _find_place(self, status: os.stat_result) -> None:
        if self._file is not None and (self._file != status.st_ino
                                       or status.st_size < self._at):
            self._at = self._line = 0
            self._is_again = True
        self._file = status.st_ino

    def _take(self, line: bytes) -> dict[str, Any] | None:
        self._line += 1
        mark = hash(line)
        if self._is_again and mark in self._seen:
            return None
        self._seen.add(mark)
        if not line.strip():
            return None
        return record_of(line, f"{self.path}:{self._line}")


def read(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """All records of a run. Raises SluiceError where it has no file yet."""
    reader = Reader(folder)
    if not reader.path.exists():
        raise SluiceError(f"{reader.path}: No such file or directory")
    return reader.read()


def is_held(folder: str | os.PathLike[str]) -> bool:
    """Whether a process works in the folder of a run."""
    try:
        with open(pathlib.Path(folder) / "lock", "rb") as file:
            asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            answer = fcntl.fcntl(file, fcntl.F_GETLK, asked)
    except OSError:
        return False
    return struct.unpack(FLOCK, answer)[0] != fcntl.F_UNLCK


def follow(folder: str | os.PathLike[str], is_over: Callable[[], bool],
           period: float = PERIOD) -> Iterator[dict[str, Any]]:
    """Yields the records of a run as they come, until is_over() and all that
    was written by then has been read."""
    reader = Reader(folder)
    while True:
        over = is_over()  # before the last look, so that nothing is missed
        yield from reader.read()
        if over:
            return
        time.sleep(period)
