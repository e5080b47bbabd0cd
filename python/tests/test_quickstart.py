"""The quickstart's lines, table and timelines."""
import json
import re

import pytest

from sluice import quickstart
from sluice.sweeps import Sweep


def test_a_run_that_ends_has_a_line_with_the_time_left():
    assert quickstart.progress_line(
        "[2/7] 1F1B, seed 1: done in 9.1 s, loss 0.05, accuracy 98 %; 5 left",
        20) == "[2/7] 1F1B: done in 9.1 s, accuracy 98 %; 5 left, about 50 s"
    assert quickstart.progress_line("[3/7] local losses, seed 1", 20) == (
        "[3/7] local losses")
    assert quickstart.progress_line("[7/7] a, seed 1: done; 0 left", 20) == (
        "[7/7] a: done; 0 left")
    assert quickstart.progress_line("3 of 7 runs done", 20) is None


def write_sweep(folder, figures):
    """figures: label -> records of its run; None: the run failed."""
    cells = []
    for number, (label, records) in enumerate(figures.items()):
        run = folder / f"cells/{number}/seed-1"
        run.mkdir(parents=True)
        cells.append({"label": label, "folder": f"cells/{number}", "values": {},
                      "seeds": [1]})
        if records is None:
            run.with_suffix(".failed").write_text("")
            continue
        (run / "config.toml").write_text("")
        (run / "metrics.jsonl").write_text(
            "".join(json.dumps(record) + "\n" for record in records))
    (folder / "sweep.json").write_text(json.dumps({"cells": cells}))
    return Sweep(folder)


def records(reached, accuracy, rate, blocks=2):
    return [{"kind": "evaluation", "time": reached, "accuracy": accuracy},
            {"kind": "evaluation", "time": reached + 5, "accuracy": accuracy},
            {"kind": "summary", "time": reached + 6, "accuracy": accuracy,
             "samples_per_second": rate, "blocks": blocks}]


def test_the_table_is_sorted_by_seconds_to_the_accuracy(tmp_path):
    sweep = write_sweep(tmp_path, {
        "one block": records(9, 0.98, 1000, blocks=1),
        "never there": records(1, 0.5, 3000), "broken": None,
        "fast": records(4, 0.975, 2500)})
    lines = quickstart.table(quickstart.rows_of(sweep))
    assert [line.split("  ")[0] for line in lines[2:]] == [
        "fast", "one block", "never there", "broken"]
    assert re.split(r" {2,}", lines[2]) == [
        "fast", "97.50%", "4.0", "10.0", "2,500", "2.50 x"]
    assert re.split(r" {2,}", lines[4])[1:3] == ["50.00%", "never"]
    assert re.split(r" {2,}", lines[5]) == [
        "broken", "failed", "-", "-", "-", "-"]
    assert len({len(line) for line in lines}) == 1


def test_a_wrong_setting_ends_before_earlier_results_are_gone(
        tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    quickstart.FOLDER.mkdir(parents=True)
    (quickstart.FOLDER / "kept").write_text("")
    assert quickstart.main(["epoch=1"]) == 2
    assert (quickstart.FOLDER / "kept").exists()
    assert "epochs" in capfd.readouterr().err


@pytest.mark.parametrize("setting", [["limit.train=192", "epochs=1"]])
def test_it_ends_with_a_table_timelines_and_a_page(
        tmp_path, monkeypatch, capfd, setting):
    monkeypatch.chdir(tmp_path)
    assert quickstart.main([*setting, "data.test=64"]) == 0
    shown = capfd.readouterr().out
    for text in ("about ", "local losses", "over one block", "block 2  | ",
                 "Local losses: block 1", "report.html"):
        assert text in shown
    assert all(len(line) <= quickstart.COLUMNS for line in shown.splitlines()
               if line.startswith("block "))
    assert (tmp_path / "runs/quickstart/report.html").exists()
