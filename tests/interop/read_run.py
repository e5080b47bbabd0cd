"""Reads a run's folder with the programs that it is written for.

usage: read_run.py RUN_FOLDER WEIGHTS_OUT

Fails unless TensorBoard finds every figure of metrics.jsonl and the config, and safetensors
the weights, which it also writes to WEIGHTS_OUT with 1 added to each: a file
that another framework could have made.
"""
import json
import pathlib
import sys
import tomllib

import numpy
from safetensors.numpy import load_file, save_file
from tensorboard.backend.event_processing.event_accumulator import (
    EventAccumulator,
)
from tensorboard.plugins.hparams import metadata


def check_events(run):
    events = EventAccumulator(str(run), size_guidance={"scalars": 0})
    events.Reload()
    wanted = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        if "turn" not in record or "loss" not in record:
            continue
        owner = f"block{record['block']}" if "block" in record else record["kind"]
        wanted.setdefault(f"{owner}/loss", []).append(
            (record["turn"], record["loss"]))
    assert wanted, "the run has no losses"
    for tag, points in wanted.items():
        seen = [(e.step, e.value) for e in events.Scalars(tag)]
        assert [s for s, _ in seen] == [s for s, _ in points], tag
        assert numpy.allclose([v for _, v in seen], [v for _, v in points]), tag
    print(f"TensorBoard reads {len(wanted)} curves")


def check_hyperparameters(run):
    events = EventAccumulator(str(run))
    events.Reload()
    said = metadata.parse_session_start_info_plugin_data(
        events.SummaryMetadata(metadata.SESSION_START_INFO_TAG)
        .plugin_data.content)
    config = tomllib.loads((run / "config.toml").read_text())
    assert said.hparams["batch_size"].number_value == config["batch_size"]
    assert said.hparams["model.name"].string_value == config["model"]["name"]
    assert said.hparams["drain"].bool_value == config["drain"]
    print(f"TensorBoard reads {len(said.hparams)} hyperparameters")


def check_weights(run, out):
    checkpoint = sorted((run / "checkpoints").glob("turn-*"))[-1]
    weights = {}
    for file in checkpoint.glob("block-?.safetensors"):
        weights.update(load_file(file))
    assert any(name.startswith("layers.0.") for name in weights)
    save_file({name: numpy.asarray(tensor + 1) for name, tensor in weights.items()
               if name.startswith("layers.")}, out)
    print(f"safetensors reads {len(weights)} tensors")


if __name__ == "__main__":
    check_events(pathlib.Path(sys.argv[1]))
    check_hyperparameters(pathlib.Path(sys.argv[1]))
    check_weights(pathlib.Path(sys.argv[1]), sys.argv[2])
