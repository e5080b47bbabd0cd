"""What trackers are told."""
import json
import math
import struct
import subprocess
import sys

import pytest

import sluice
from sluice.track.__main__ import TRACKERS, track
from sluice.track.figures import figures_of, flat


def test_figures_are_named_by_their_block():
    assert figures_of({"kind": "train", "turn": 3, "block": 2, "batch": 3,
                       "time": 0.1, "loss": 0.5, "d_upd": 1,
                       "accuracy": math.nan}) == {
        "block2/loss": 0.5, "block2/d_upd": 1}
    assert figures_of({"kind": "evaluation", "turn": 4, "epoch": 0.5,
                       "loss": 2.0}) == {"evaluation/loss": 2.0}
    assert figures_of({"kind": "layer_probe", "turn": 3, "block": 2, "batch": 3,
                       "layer": 5, "cosine": 0.5}) == {
        "block2/layer5/cosine": 0.5}
    assert figures_of({"kind": "block", "block": 1, "parameters": 9}) == {}


def test_a_config_is_flat():
    assert flat({"a": {"b": {"c": 1}, "d": [2]}, "e": 3}) == {
        "a.b.c": 1, "a.d": [2], "e": 3}


class Heard:
    """A tracker that keeps what it is told."""

    def __init__(self, run, project):
        self.run, self.told, self.state = run, [], None
        Heard.last = self

    def tell(self, record):
        self.told.append(record)

    def end(self, state):
        self.state = state


@pytest.fixture
def heard(monkeypatch):
    import types

    module = types.ModuleType("heard")
    module.Tracker = Heard
    monkeypatch.setitem(sys.modules, "heard", module)
    monkeypatch.setitem(TRACKERS, "heard", "heard")
    return Heard


def test_a_tracker_is_told_all_of_a_run(tiny_run, heard):
    track("heard", tiny_run.folder)
    assert heard.last.told == tiny_run.records()
    assert heard.last.state == "done"


def test_a_running_run_is_followed_to_its_end(program, tiny, here, heard):
    run = sluice.run(tiny, folder="run", wait=False)
    track("heard", "run", seconds=10)
    assert heard.last.told == run.wait().records()
    assert heard.last.state == "done"


def test_a_run_is_over_when_the_program_says_so(tiny_run, heard):
    looks = iter([False, False, True, True])
    track("heard", tiny_run.folder, is_over=lambda: next(looks))
    assert heard.last.told == tiny_run.records()
    assert heard.last.state == "done"
    assert next(looks, None) is None


def test_a_run_that_is_over_before_it_began_is_no_run(here, heard):
    heard.last = None
    track("heard", "nothing", seconds=10, is_over=lambda: True)
    assert heard.last is None


@pytest.mark.parametrize("is_open", [True, False])
def test_the_program_is_over_when_standard_input_ends(is_open):
    asked = subprocess.Popen(
        [sys.executable, "-c", "from sluice.track.__main__ import *; "
         "print(input_has_ended())"], text=True, stdout=subprocess.PIPE,
        stdin=subprocess.PIPE if is_open else subprocess.DEVNULL)
    assert asked.stdout.read().strip() == str(not is_open)
    if is_open:
        asked.stdin.close()
    assert asked.wait() == 0


def test_a_name_that_is_none_is_told(tiny, here):
    with pytest.raises(sluice.SluiceError, match="wandb, mlflow, tensorboard"):
        sluice.run(tiny, logger="comet")


def test_tensorboard_wants_no_process(program, tiny, here):
    run = sluice.run(tiny, logger="tensorboard")
    assert run.state == "done"
    assert list(run.folder.glob("events.out.tfevents.*"))


def test_wandb_has_the_curves(program, tiny, here, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = sluice.run(tiny, folder="run", logger="wandb")
    files = list(run.folder.glob("wandb/offline-run-*/run-*.wandb"))
    assert len(files) == 1
    rows = [row for row in wandb_rows(files[0]) if "evaluation/loss" in row]
    said = [r for r in run.records() if r["kind"] == "evaluation"]
    assert [(row["turn"], row["evaluation/loss"]) for row in rows] == [
        (r["turn"], r["loss"]) for r in said]


def wandb_records(content):
    """Of a file of wandb's: 7 bytes, then LevelDB's log format: blocks of 32 KiB
    of pieces (checksum, length, type), the last two types end a record."""
    at, record = 7, b""
    while at + 7 <= len(content):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", content, at)
        record += content[at + 7:at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield record
            record = b""


def wandb_rows(file):
    """The history of an offline run, in wandb's own messages."""
    from wandb.proto.wandb_internal_pb2 import Record

    rows = []
    for data in wandb_records(file.read_bytes()):
        record = Record.FromString(data)
        if record.WhichOneof("record_type") == "history":
            rows.append({item.key or "/".join(item.nested_key):
                         json.loads(item.value_json)
                         for item in record.history.item})
    return rows


def test_mlflow_has_the_curves(tiny_run, here, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    subprocess.run([sys.executable, "-m", "sluice.track", "mlflow",
                    tiny_run.folder, "--project", "tests"], check=True)
    from mlflow.tracking import MlflowClient

    client = MlflowClient((here / "mlruns").as_uri())
    experiment = client.get_experiment_by_name("tests").experiment_id
    found, = client.search_runs([experiment])
    assert found.info.status == "FINISHED"
    assert found.data.params["model.name"] == "mlp"
    history = client.get_metric_history(found.info.run_id, "evaluation/loss")
    said = [r for r in tiny_run.records() if r["kind"] == "evaluation"]
    assert [(metric.step, metric.value) for metric in history] == [
        (r["turn"], r["loss"]) for r in said]
