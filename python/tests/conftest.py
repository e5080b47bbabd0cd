"""What the tests need, and the reason where they are skipped without it."""
import copy
import os

import pytest

import sluice

TINY = {
    "name": "tiny", "engine": "virtual", "threads": 1, "blocks": 2,
    "turns": 16, "batch_size": 16, "log_every": 1, "evaluate_every": 0.5,
    "data": {"name": "drawn_digits", "train": 256, "test": 64},
    "model": {"name": "mlp", "hidden": [16, 16]},
    "boundary": {"policy": "local_loss", "head": {"name": "linear"}},
    "optimizer": {"name": "adam", "lr": 1e-3},
}


@pytest.fixture
def tiny():
    return copy.deepcopy(TINY)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def program():
    """The path of the built program."""
    try:
        return os.path.abspath(sluice.find_program())
    except sluice.SluiceError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def tiny_run(program, tmp_path_factory):
    """A run that is done. Only to be read."""
    folder = tmp_path_factory.mktemp("tiny") / "run"
    return sluice.run(copy.deepcopy(TINY), folder=folder)
