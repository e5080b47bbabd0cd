"""The quickstart: one net in two blocks by six methods, and uncut, compared.

usage: sluice quickstart [KEY=VALUE ...]     e.g. epochs=1

Needs no package of Python's. In a checkout scripts/quickstart builds the program
first.
"""
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from sluice.errors import SluiceError
from sluice.program import find_program
from sluice.runs import Run
from sluice.sweeps import Sweep

CONFIG = pathlib.Path("experiments/configs/quickstart/methods.toml")
PACKED = pathlib.Path(__file__).resolve().parent / "configs/quickstart.toml"
FOLDER = pathlib.Path("runs/quickstart")
TARGET = 0.97  # accuracy
COLUMNS = 80
TIMELINES = {
    "back-propagation": "Back-propagation: each block waits for the other.",
    "delayed gradients":
        "Delayed gradients: block 1 learns from the batch before.",
    "local losses": "Local losses: block 1 learns from a loss of its own."}
RUN = re.compile(
    r"(?P<run>\[\d+/(?P<all>\d+)\] [^,]*), seed \d+(?P<rest>: .*; "
    r"(?P<left>\d+) left)?$")


def config_file() -> pathlib.Path:
    """The sweep's config: of a wheel, or of the checkout around this file."""
    if PACKED.exists():
        return PACKED
    return pathlib.Path(__file__).resolve().parents[2] / CONFIG


def say(text: str = "") -> None:
    print(text, flush=True)


def progress_line(line: str, seconds: float) -> str | None:
    """A line of the sweep on a run, shorter and with a forecast of the time
    left; None: it is of something else."""
    found = RUN.match(line)
    if found is None:
        return None
    rest = re.sub(r", loss [\d.]*,", ",", found["rest"] or "")
    if found["left"] is None or int(found["left"]) == 0:
        return found["run"] + rest
    left, runs = int(found["left"]), int(found["all"])
    forecast = seconds * left / (runs - left)
    return f"{found['run']}{rest}, about {forecast:.0f} s"


def run_sweep(program: str, config: pathlib.Path,
              settings: Iterable[str]) -> int:
    """Its exit status."""
    started = time.monotonic()
    command = [program, "sweep", str(config), "--dir", str(FOLDER), *settings]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sweep:
        for line in sweep.stdout or ():
            shown = progress_line(line.rstrip("\n"),
                                  time.monotonic() - started)
            if shown is not None:
                say(shown)
    return sweep.returncode


class Row:
    """A cell's first run: figures are None where they are unknown."""

    def __init__(self, cell: dict[str, Any], run: Run | None,
                 failed: bool) -> None:
        self.name = cell["label"]
        self.failed = failed
        records = [] if failed or run is None else run.records()
        summary: dict[str, Any] = next((record for record in reversed(records)
                        if record.get("kind") == "summary"), {})
        self.blocks = summary.get("blocks")
        self.accuracy = summary.get("accuracy")
        self.seconds = summary.get("time")
        self.rate = summary.get("samples_per_second")
        self.reached = next(
            (record["time"] for record in records
             if record.get("kind") == "evaluation"
             and (record.get("accuracy") or 0) >= TARGET), None)

    def cells(self, rate_of_one_block: float | None) -> list[str]:
        speed = (self.rate / rate_of_one_block
                 if self.rate and rate_of_one_block else None)
        never = self.seconds is not None and self.reached is None
        return ["failed" if self.failed else figure(self.accuracy, "{:.2%}"),
                "never" if never else figure(self.reached, "{:.1f}"),
                figure(self.seconds, "{:.1f}"), figure(self.rate, "{:,.0f}"),
                figure(speed, "{:.2f} x")]


def figure(value: object, form: str) -> str:
    is_number = isinstance(value, (int, float)) and math.isfinite(value)
    return form.format(value) if is_number else "-"


def rows_of(sweep: Sweep) -> Iterator[Row]:
    """A row per cell of the sweep, in its order."""
    runs = {cell["label"]: run for cell, _, run in reversed(list(sweep.cells()))}
    for cell in sweep.plan["cells"]:
        folder = sweep.folder / cell["folder"] / f"seed-{cell['seeds'][0]}"
        yield Row(cell, runs.get(cell["label"]),
                  folder.with_suffix(".failed").exists())


def table(rows: Iterable[Row]) -> list[str]:
    """Lines of a table, sorted by seconds to the accuracy; the last column is
    samples per second over those of the cell with one block."""
    rows = sorted(rows, key=lambda row: (row.reached or math.inf, row.failed))
    baseline = next((row.rate for row in rows if row.blocks == 1), None)
    lines = [["method", "accuracy", f"s to {100 * TARGET:g} %", "s in all",
              "samples/s", "over one block"],
             *([row.name, *row.cells(baseline)] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    lines.insert(1, ["-" * width for width in widths])
    return ["  ".join([name.ljust(widths[0]),
                       *map(str.rjust, others, widths[1:])])
            for name, *others in lines]


def timeline(program: str, sweep: Sweep, label: str) -> list[str]:
    """Lines of what two equal blocks do, cut to a terminal's width."""
    config = next((run.folder / "config.toml" for cell, _, run in sweep.cells()
                   if cell["label"] == label), None)
    if config is None:
        return []
    plan = subprocess.run(
        [program, "plan", str(config), "--forward", "1", "--backward", "2",
         "--update", "0", "--head", "0", "--turns", "9"],
        capture_output=True, text=True, check=False).stdout
    return [re.sub(r" *[^ ]*$", "", line[:COLUMNS])
            for line in plan.splitlines() if re.match(r"block \d+ *\|", line)]


def offer_to_open(page: str) -> None:
    """Where a browser and a display are there."""
    has_display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not (is_terminal and has_display and shutil.which("xdg-open")):
        return
    try:
        answer = input("Open it now? [y/N] ")
    except EOFError:
        return
    if answer.lower().startswith("y"):
        subprocess.run(["xdg-open", page], stderr=subprocess.DEVNULL,
                       check=False)


def show(program: str, sweep: Sweep) -> None:
    say()
    say(f"Sorted by seconds (s) to {100 * TARGET:g} % accuracy; a core for each "
        "block, or one in all:")
    say()
    say("\n".join(table(rows_of(sweep))))
    say()
    say("Two equal blocks over time (F forward, B backward, U update of a "
        "batch;\n- busy, . waiting):")
    for label, title in TIMELINES.items():
        lines = timeline(program, sweep, label)
        if lines:
            say("\n".join([title, *lines]))
    say()
    page = f"{FOLDER}/report.html"
    report = subprocess.run([program, "report", str(FOLDER)],
                            stdout=subprocess.DEVNULL, check=False)
    if report.returncode == 0:
        say(f"Curves, memory, real timelines: {page}")
        offer_to_open(page)


def compare(settings: list[str]) -> int:
    """The exit status of the sweep; 2 where a setting is wrong."""
    program, config = find_program(), config_file()
    say()
    say(f"sluice sweep {os.path.relpath(config)} --dir {FOLDER}"
        + "".join(f" {setting}" for setting in settings))
    say("One net in two blocks, by six methods, and uncut: one to three minutes.")
    # A mistake in a setting ends here, before earlier results are deleted.
    trial = subprocess.run(
        [program, "sweep", str(config), "--dir", f"{FOLDER}/none", *settings,
         "--dry-run"], stdout=subprocess.DEVNULL, check=False)
    if trial.returncode != 0:
        return trial.returncode
    shutil.rmtree(FOLDER, ignore_errors=True)
    status = run_sweep(program, config, settings)
    if (FOLDER / "sweep.json").exists():
        show(program, Sweep(FOLDER))
    return status


def main(arguments: list[str]) -> int:
    """The exit status of the command."""
    if arguments[:1] in (["--help"], ["-h"]):
        say(__doc__ or "")
        return 0
    try:
        return compare(arguments)
    except SluiceError as error:
        print(f"sluice: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
