"""Sweeps: many runs of a config, and their results in one frame."""
from __future__ import annotations

import html
import json
import os
import pathlib
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

from sluice import config as configs
from sluice import frames
from sluice.errors import SluiceError, need
from sluice.records import PERIOD
from sluice.runs import Process, Run, settings_of

if TYPE_CHECKING:
    import pandas

SOME_FAILED = 3


class Sweep:
    """A sweep's folder. sweep() and load() return it.

        sweep = sluice.load("runs/sweeps/mine")
        sweep.results().groupby("label")["accuracy"].mean()

    Each property reads the folder anew.
    """

    def __init__(self, folder: str | os.PathLike[str],
                 process: Process | None = None) -> None:
        self.folder = pathlib.Path(folder)
        self._process = process

    @property
    def plan(self) -> dict[str, Any]:
        """sweep.json: its axes and cells, as a dict."""
        file = self.folder / "sweep.json"
        try:
            return json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SluiceError(f"{file}: can't be read: {error}") from None

    @property
    def is_over(self) -> bool:
        """Whether the sweep has ended, or was not started here."""
        return self._process is None or self._process.status is not None

    def wait(self) -> Self:
        """Waits until the sweep is over, and returns the sweep. Runs that failed are no error:
        results() says which."""
        if self._process is not None and self._process.wait() != SOME_FAILED:
            self._process.check()
        return self

    def cancel(self) -> Self:
        """Ends the sweep as Ctrl-C does; the same call of sweep() goes on."""
        if self._process is None:
            raise SluiceError(f"{self.folder}: was not started here")
        self._process.end()
        return self

    def cells(self) -> Iterator[tuple[dict[str, Any], int, Run]]:
        """(cell of the plan, seed, Run) of each run that has a folder."""
        for cell in self.plan["cells"]:
            for seed in cell["seeds"]:
                folder = self.folder / cell["folder"] / f"seed-{seed}"
                if (folder / "config.toml").exists():
                    yield cell, seed, Run(folder)

    @property
    def runs(self) -> list[Run]:
        """All runs that have begun."""
        return [run for _, _, run in self.cells()]

    def results(self) -> pandas.DataFrame:
        """A row per run: the values of its cell, label, seed, state, what its
        last evaluation says, and its folder."""
        pandas = need("pandas", "results()")
        rows = []
        for cell, seed, run in self.cells():
            result = {key: value for key, value in run.result.items()
                      if key != "kind"}
            rows.append({"label": cell["label"], **cell["values"], "seed": seed,
                         "state": run.state, **result,
                         "folder": str(run.folder)})
        return pandas.DataFrame(rows)

    def curves(self, measure: str = "loss",
               split: str = "test") -> pandas.DataFrame:
        """Indexed by turn: for each cell, by its label, the mean over seeds."""
        pandas = need("pandas", "curves()")
        columns: dict[str, list[Any]] = {}
        for cell, _, run in self.cells():
            curve = frames.curves_of(run.turns, run.evaluations, measure)
            if split in curve:
                columns.setdefault(cell["label"], []).append(
                    curve[split].dropna())
        result = pandas.DataFrame({
            label: pandas.concat(curves, axis=1).mean(axis=1)
            for label, curves in columns.items()}).sort_index()
        result.index.name = "turn"
        return result

    def __repr__(self) -> str:
        runs = self.runs
        done = sum(run.state == "done" for run in runs)
        planned = sum(len(cell["seeds"]) for cell in self.plan["cells"])
        return f"<Sweep {self.folder}: {done} of {planned} runs done>"

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>"


def sweep(config: configs.Config, *,
          folder: str | os.PathLike[str] | None = None, jobs: int = 1,
          seeds: int | Iterable[int] | None = None, samples: int | None = None,
          zip: bool = False, on_failure: str = "report", wait: bool = True,
          **settings: Any) -> Sweep:
    """Does many runs of a config: each combination of values, with each seed.

        sluice.sweep("config.toml", optimizer__lr=[0.1, 0.01], seeds=3).results()

    config: as for run(); it may have a table [sweep].
    folder: the sweep's; by default runs/sweeps/NAME.
    jobs: runs at once. seeds: a number of seeds, or a list of them.
    samples: so many cells, drawn at random. zip: all axes move together.
    settings: a list is an axis, optimizer__lr=[0.1, 0.01]; a value that is a
        list itself stands in one, model__hidden=[[64], [64, 64]]; Space(...) is
        what the command line takes, Space("log_uniform(1e-4,1e-1)"). Anything
        else holds for all runs.

    Runs that are done are skipped, and the same call goes on with a sweep that
    was interrupted. Returns the Sweep. Raises SluiceError.
    """
    with configs.as_file(config) as file:
        if folder is None:
            folder = pathlib.Path("runs/sweeps") / configs.name_of(
                file, settings_of(settings))
        arguments: list[Any] = ["sweep", file, *configs.axes(settings), "--dir", folder,
                     "--jobs", jobs, "--on-failure", on_failure]
        if seeds is not None:
            arguments += ["--seeds", seeds if isinstance(seeds, int)
                          else ",".join(map(str, seeds))]
        if samples is not None:
            arguments += ["--samples", samples]
        if zip:
            arguments.append("--zip")
        process = Process(arguments)
        started = Sweep(folder, process)
        try:
            if wait:
                started.wait()
            else:
                _wait_for_plan(started)
        except BaseException:
            process.end()
            raise
    return started


def _wait_for_plan(started: Sweep) -> None:
    """The config, which may be a temporary file, has been read by then; what is
    wrong with it is raised."""
    plan = started.folder / "sweep.json"
    before = plan.stat().st_mtime_ns if plan.exists() else None
    while not started.is_over:
        if plan.exists() and plan.stat().st_mtime_ns != before:
            return
        time.sleep(PERIOD)
    started.wait()
