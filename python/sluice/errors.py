"""What goes wrong."""
import importlib
from typing import Any


class SluiceError(Exception):
    """One line about what is wrong, by the program or by this package.

    status: the program's exit status (2: something that the caller can mend);
    None where no program ran.

        try:
            run = sluice.run("config.toml", optimizer__lr=-1)
        except sluice.SluiceError as error:
            print(error)
    """

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class Diverged(SluiceError):
    """A loss of the run was NaN or infinite.

        try:
            sluice.run("config.toml", optimizer__lr=1e6)
        except sluice.Diverged:
            sluice.run("config.toml", optimizer__lr=1e-3)
    """


class MissingPackage(SluiceError, ImportError):
    """A package that this call needs isn't installed.

    The message names the `pip install` that brings it.
    """


DIVERGED_STATUS = 5


def error_of(status: int, stderr: str, command: str) -> SluiceError:
    """The error that a program ended with."""
    text = one_line(stderr) or f"{command} ended with status {status}"
    kind = Diverged if status == DIVERGED_STATUS else SluiceError
    return kind(text, status)


def one_line(stderr: str) -> str:
    """The last line that the program said in its own name, or else the last."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("sluice: ")]
    if own:
        return own[-1].removeprefix("sluice: ")
    return lines[-1] if lines else ""


def need(name: str, what: str) -> Any:
    """Imports a package that is optional."""
    package = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if error.name != package:
            raise  # it is there, and lacks something itself
        raise MissingPackage(f"{what} needs the package {package}: "
                             f"pip install {package}") from None
