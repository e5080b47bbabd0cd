"""Hands a run on to an experiment tracker, while it goes on and until it ends.

usage: python -m sluice.track wandb|mlflow RUN [--project NAME]

RUN: a run's folder; it may yet have to begin (--wait S: for so many seconds).
Offline: WANDB_MODE=offline, or for mlflow no MLFLOW_TRACKING_URI.
"""
import argparse
import importlib
import math
import os
import pathlib
import select
import sys
import time

from sluice import load
from sluice.errors import SluiceError
from sluice.records import PERIOD, follow

TRACKERS = {"wandb": "sluice.track.to_wandb", "mlflow": "sluice.track.to_mlflow"}


def never():
    return False


def begun_run(folder, seconds, is_over=never):
    """The run in the folder, once its config and run.json are there; None where
    it is over before that."""
    end = time.monotonic() + seconds
    while not (pathlib.Path(folder) / "run.json").exists():
        if is_over():
            return None
        if time.monotonic() >= end:
            break
        time.sleep(PERIOD)
    run = load(folder)
    if not hasattr(run, "follow"):
        raise SluiceError(f"{folder}: is a sweep; give the folder of a run")
    return run


def track(name, folder, project=None, seconds=0, is_over=None):
    """is_over says when to end; by default when no process works there."""
    run = begun_run(folder, seconds, is_over or never)
    if run is None:
        return
    tracker = importlib.import_module(TRACKERS[name]).Tracker(run, project)
    try:
        for record in follow(run.folder, is_over or (lambda: run.is_over)):
            tracker.tell(record)
    finally:
        ended = is_over is not None and is_over()
        tracker.end(run.last_state if ended else run.state)


def input_has_ended():
    """Of a pipe that nobody writes to: the program that started this is over."""
    return bool(select.select([0], [], [], 0)[0]) and not os.read(0, 1)


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m sluice.track", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tracker", choices=sorted(TRACKERS))
    parser.add_argument("run", help="the run's folder")
    parser.add_argument("--project", help="wandb's project, or MLflow's "
                        "experiment; default: sluice")
    parser.add_argument("--wait", type=float, default=0, metavar="S",
                        help="seconds to wait for a run that hasn't begun")
    parser.add_argument("--until-eof", action="store_true",
                        help="the run is over when standard input ends: for "
                        "the program, which starts this for the key `logger`")
    given = parser.parse_args(arguments)
    try:
        if given.until_eof:
            track(given.tracker, given.run, given.project, math.inf,
                  input_has_ended)
        else:
            track(given.tracker, given.run, given.project, given.wait)
    except SluiceError as error:
        sys.exit(f"sluice: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
