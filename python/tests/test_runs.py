"""Runs of the program, from the config to the frames."""
import json
import subprocess
import sys
import time

import pytest

import sluice
from sluice.runs import Process

ENDLESS = {"turns": 10**6, "evaluate_every": 0}


def test_a_run_has_the_numbers_of_the_command_line(program, tiny, here):
    run = sluice.run(tiny, optimizer__lr=2e-3)
    assert run.folder.as_posix() == "runs/tiny-1"
    subprocess.run([program, "run", run.folder / "config.toml", "--dir",
                    "typed"], check=True, capture_output=True)
    typed = sluice.load("typed")
    assert run.config["optimizer"]["1"]["lr"] == 2e-3
    losses = [[(r["turn"], r["block"], r["loss"]) for r in each.records()
               if r["kind"] == "train"] for each in (run, typed)]
    assert len(losses[0]) == 32
    assert losses[0] == losses[1]
    assert run.result["loss"] == typed.result["loss"]
    other = sluice.run(tiny)
    assert other.folder.as_posix() == "runs/tiny-2"
    assert other.result["loss"] != run.result["loss"]


def test_frames_have_a_row_per_record(tiny_run):
    pandas = pytest.importorskip("pandas")
    turns, evaluations = tiny_run.turns, tiny_run.evaluations
    assert isinstance(turns, pandas.DataFrame)
    assert sorted(set(turns["block"])) == [1, 2]
    assert list(turns[turns["block"] == 1]["turn"]) == list(range(16))
    assert {"loss", "lr", "d_batch"} <= set(turns.columns)
    assert list(evaluations["turn"])[-1] == 16
    assert evaluations["accuracy"].between(0, 1).all()
    assert len(tiny_run.metrics) == len(tiny_run.records())


def test_curves_have_a_column_per_block_and_split(tiny_run):
    pytest.importorskip("pandas")
    curves = tiny_run.curves("loss")
    assert list(curves.columns) == ["block 1", "block 2", "test"]
    first = [r for r in tiny_run.records()
             if r["kind"] == "train" and r["block"] == 2][3]
    assert curves.loc[3, "block 2"] == first["loss"]
    assert curves.loc[16, "test"] == tiny_run.result["loss"]
    assert tiny_run.curves("nothing").empty


def test_a_mistake_is_the_line_of_the_program_and_leaves_nothing(
        program, tiny, here):
    with pytest.raises(sluice.SluiceError, match="boundary.*backporp") as error:
        sluice.run(tiny, boundary={"policy": "backporp"})
    assert error.value.status == 2
    assert "\n" not in str(error.value)
    assert list(here.glob("runs/*")) == []
    with pytest.raises(sluice.SluiceError, match="backporp"):
        sluice.run(tiny, wait=False, boundary={"policy": "backporp"})


def test_callbacks_hear_each_record_once(program, tiny, here):
    turns, evaluations, all_records = [], [], []
    run = sluice.run(tiny, on_turn=turns.append,
                     on_evaluation=evaluations.append,
                     on_event=all_records.append)
    assert all_records == run.records()
    assert turns == [r for r in all_records if r["kind"] == "train"]
    assert evaluations == [r for r in all_records if r["kind"] == "evaluation"]


def test_a_callback_ends_a_run_which_then_goes_on(program, tiny, here):
    run = sluice.run(tiny | ENDLESS, folder="run",
                     on_turn=lambda record: record["turn"] < 20)
    assert run.state == "stopped"
    stopped_at = run.records()[-1]
    last = max(r["turn"] for r in run.records() if r["kind"] == "train")
    assert 20 <= last < 10**6
    run.resume(turns=last + 10)
    assert run.state == "done"
    assert max(r["turn"] for r in run.records()
               if r["kind"] == "train") == last + 9
    assert stopped_at != run.records()[-1]


def test_it_is_asked_once_to_end(here, monkeypatch):
    """By a program that counts signals."""
    program = here / "program"
    program.write_text(
        f"#!{sys.executable}\nimport signal, sys, time\nheard = []\n"
        "signal.signal(signal.SIGINT, lambda *_: heard.append(1))\n"
        "print('ready', flush=True)\n"
        "while not heard: time.sleep(0.01)\n"
        "end = time.monotonic() + 1.5\n"
        "while time.monotonic() < end: time.sleep(0.01)\n"
        "print(len(heard))\n")
    program.chmod(0o755)
    monkeypatch.setenv("SLUICE_PROGRAM", str(program))
    process = Process(["run"])
    while "ready" not in process.output:
        time.sleep(0.01)
    process.signal()
    time.sleep(0.2)
    process.signal()
    process.end()
    assert process.output == "ready\n1\n"
    process.check()  # no error


def test_a_callback_that_fails_ends_the_run(program, tiny, here):
    def fail(record):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        sluice.run(tiny | ENDLESS, folder="run", on_turn=fail)
    assert sluice.load("run").state == "stopped"


def test_a_running_run_is_followed_and_cancelled(program, tiny, here):
    run = sluice.run(tiny | ENDLESS, folder="run", wait=False)
    assert run.state == "running" and not run.is_over
    assert sluice.load("run").state == "running"
    seen = 0
    for record in run.follow():
        seen += record["kind"] == "train"
        if seen == 5:
            run.cancel()
    assert run.state == sluice.load("run").state == "stopped"
    assert seen == sum(r["kind"] == "train" for r in run.records())


def test_a_loss_that_is_nan_raises_diverged(program, tiny, here):
    with pytest.raises(sluice.Diverged):
        sluice.run(tiny, folder="run", optimizer={"name": "sgd", "lr": 1e30})
    assert sluice.load("run").state == "diverged"


def test_waiting_has_a_limit(program, tiny, here):
    run = sluice.run(tiny | ENDLESS, folder="run", wait=False)
    with pytest.raises(TimeoutError):
        run.wait(timeout=0.2)
    run.cancel()


def test_a_run_looks_like_its_results(tiny_run, monkeypatch):
    assert "done" in repr(tiny_run) and "test accuracy" in repr(tiny_run)
    assert "<table>" in tiny_run._repr_html_()
    assert json.dumps(tiny_run.about)  # run.json
    assert "Done after" in tiny_run.output


def test_a_run_of_numbers_has_no_accuracy(here):
    (here / "run").mkdir()
    (here / "run/config.toml").write_text("")
    (here / "run/metrics.jsonl").write_text(json.dumps(
        {"kind": "evaluation", "turn": 3, "epoch": 1, "loss": 0.5}) + "\n")
    assert repr(sluice.load("run")) == (
        "<Run run: failed, turns 3, test loss 0.5000>")


def test_what_is_no_run_is_told(here):
    with pytest.raises(sluice.SluiceError, match="isn't there"):
        sluice.load("absent")
    (here / "empty").mkdir()
    with pytest.raises(sluice.SluiceError, match="no config.toml"):
        sluice.load("empty")


def test_a_plan_is_a_timeline(program, tiny, here):
    tiny["boundary"] = {"policy": "delayed_gradient"}
    plan = sluice.plan(tiny, turns=3)
    assert repr(plan) == str(plan) and "F" in plan
    assert plan != sluice.plan(tiny, turns=3, boundary={"policy": "backprop"})
