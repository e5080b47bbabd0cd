"""Sweeps and their frames."""
import pytest

import sluice

POLICIES = [{"policy": "backprop"},
            {"policy": "local_loss", "head": {"name": "linear"}}]


def test_a_sweep_has_a_row_per_run(program, tiny, here):
    pytest.importorskip("pandas")
    del tiny["boundary"]
    sweep = sluice.sweep(tiny, boundary=POLICIES, seeds=2, jobs=2)
    assert sweep.folder.as_posix() == "runs/sweeps/tiny"
    results = sweep.results()
    assert len(results) == len(sweep.runs) == 4
    assert (results["state"] == "done").all()
    assert sorted(results["seed"]) == [1, 1, 2, 2]
    assert results["accuracy"].between(0, 1).all()
    curves = sweep.curves("loss")
    assert list(curves.columns) == list(dict.fromkeys(results["label"]))
    last = results.groupby("label")["loss"].mean()
    for label in curves:
        assert curves[label].iloc[-1] == pytest.approx(last[label])
    assert "4 of 4 runs done" in repr(sweep)
    # A second call finds all runs done; another axis adds some.
    before = [run.folder.joinpath("done").stat().st_mtime_ns
              for run in sweep.runs]
    again = sluice.sweep(tiny, boundary=POLICIES, seeds=2)
    assert [run.folder.joinpath("done").stat().st_mtime_ns
            for run in again.runs] == before
    assert len(sluice.load(sweep.folder).runs) == 4


def test_a_cell_that_is_wrong_is_told(program, tiny, here):
    with pytest.raises(sluice.SluiceError, match="optimizer.lr"):
        sluice.sweep(tiny, optimizer__lr=[0.1, -1.0])
    assert not (here / "runs/sweeps/tiny").exists()


def test_a_run_that_fails_is_in_the_frame_and_no_error(program, tiny, here):
    pytest.importorskip("pandas")
    tiny["optimizer"] = {"name": "sgd"}
    results = sluice.sweep(tiny, optimizer__lr=[0.01, 1e30]).results()
    assert list(results["state"]) == ["done", "diverged"]
