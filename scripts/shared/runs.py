"""Reads the metrics of run folders."""
import json
import math
import pathlib
import sys


class Run:
    """A run folder: its name, training records and evaluations."""

    def __init__(self, folder):
        self.name = pathlib.Path(folder).name
        records = read_records(pathlib.Path(folder) / "metrics.jsonl")
        self.training = [r for r in records if r.get("kind") == "train"]
        self.evaluations = [r for r in records if r.get("kind") == "evaluation"]

    def losses(self):
        """Block -> (turn, loss) of each of its turns with a finite loss."""
        blocks = {}
        for record in self.training:
            if is_number(record.get("loss")):
                points = blocks.setdefault(record["block"], [])
                points.append((record["turn"], record["loss"]))
        return dict(sorted(blocks.items()))


def is_number(value):
    return isinstance(value, (int, float)) and math.isfinite(value)


def read_records(file):
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        sys.exit(f"sluice: {file}: {error.strerror}")
    try:
        return [json.loads(line) for line in lines if line.strip()]
    except ValueError as error:
        sys.exit(f"sluice: {file}: not JSON: {error}")
