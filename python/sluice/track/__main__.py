"""Hands a run on to an experiment tracker, while it goes on and until it ends.

usage: python -m sluice.track wandb|mlflow RUN [--project NAME]

RUN: a run's folder; it may yet have to begin (--wait S: for so many seconds).
Offline: WANDB_MODE=offline, or for mlflow no MLFLOW_TRACKING_URI.
"""
import argparse
import importlib
import pathlib
import sys
import time

from sluice import load
from sluice.errors import SluiceError
from sluice.records import PERIOD, follow

TRACKERS = {"wandb": "sluice.track.to_wandb", "mlflow": "sluice.track.to_mlflow"}


def begun_run(folder, seconds):
    """The run in the folder, once its config and run.json are there."""
    end = time.monotonic() + seconds
    while (not (pathlib.Path(folder) / "run.json").exists()
           and time.monotonic() < end):
        time.sleep(PERIOD)
    run = load(folder)
    if not hasattr(run, "follow"):
        raise SluiceError(f"{folder}: is a sweep; give the folder of a run")
    return run


def track(name, folder, project=None, seconds=0):
    run = begun_run(folder, seconds)
    tracker = importlib.import_module(TRACKERS[name]).Tracker(run, project)
    try:
        for record in follow(run.folder, lambda: run.is_over):
            tracker.tell(record)
    finally:
        tracker.end(run.state)


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
    given = parser.parse_args(arguments)
    try:
        track(given.tracker, given.run, given.project, given.wait)
    except SluiceError as error:
        sys.exit(f"sluice: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
