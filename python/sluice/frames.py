"""Records as pandas frames."""
from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sluice.errors import need

if TYPE_CHECKING:
    import pandas

SPLITS = {"": "test", "validation_": "validation", "training_": "training"}
# A frame without rows has these columns too.
COLUMNS = {"train": ["turn", "block", "batch", "loss", "accuracy", "time"],
           "evaluation": ["turn", "epoch", "loss", "accuracy", "time"]}


def frame_of(records: Iterable[dict[str, Any]],
             kind: str | None = None) -> pandas.DataFrame:
    """A row per record, of one kind or of all; a column per field."""
    pandas = need("pandas", "a frame")
    if kind is None:
        return pandas.DataFrame(records)
    rows = [{key: value for key, value in record.items() if key != "kind"}
            for record in records if record.get("kind") == kind]
    return pandas.DataFrame(rows, columns=None if rows else COLUMNS.get(kind))


def curves_of(turns: pandas.DataFrame, evaluations: pandas.DataFrame,
              measure: str = "loss") -> pandas.DataFrame:
    """Indexed by turn: a column for each block's `measure` in training, and one
    for each split that was evaluated. NaN where a turn has no such value."""
    pandas = need("pandas", "curves()")
    columns = {}
    if measure in turns and len(turns):
        of_first = (turns if "replica" not in turns
                    else turns[turns["replica"].fillna(1) == 1])
        for block, rows in of_first.groupby("block"):
            values = rows.groupby("turn")[measure].last()
            if values.notna().any():
                columns[f"block {block}"] = values
    for prefix, split in SPLITS.items():
        if prefix + measure in evaluations and len(evaluations):
            columns[split] = evaluations.groupby("turn")[prefix + measure].last()
    result = pandas.DataFrame(columns).sort_index()
    result.index.name = "turn"
    return result
