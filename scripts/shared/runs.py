"""Training records and evaluations of run folders, without pandas."""
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from sluice import records  # noqa: E402
from sluice.errors import SluiceError  # noqa: E402


class Run:
    """A run folder: its name, training records and evaluations."""

    def __init__(self, folder):
        self.name = pathlib.Path(folder).name
        all_records = read_records(folder)
        self.training = [r for r in all_records if r.get("kind") == "train"]
        self.evaluations = [r for r in all_records if r.get("kind") == "evaluation"]

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


def read_records(folder):
    """All records of a run folder; ends the script where they can't be read."""
    try:
        return records.read(folder)
    except SluiceError as error:
        sys.exit(f"sluice: {error}")
