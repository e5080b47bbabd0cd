"""Reads a run's records and a report's table with pandas and with DuckDB.

usage: read_tables.py METRICS.jsonl REPORT_RUNS.csv

Fails unless both find what Python's own json and csv find.
"""
import csv
import json
import pathlib
import sys

import duckdb
import pandas


def mean(values):
    return sum(values) / len(values)


def close(left, right):
    return abs(left - right) <= 1e-9 * max(1, abs(right))


def check_metrics(path):
    records = [json.loads(line)
               for line in pathlib.Path(path).read_text().splitlines()]
    wanted = {}
    for record in records:
        if record["kind"] == "train":
            wanted.setdefault(record["block"], []).append(record["loss"])
    assert len(wanted) > 1, "the run has several blocks"
    frame = pandas.read_json(path, lines=True)
    assert len(frame) == len(records)
    by_pandas = frame[frame.kind == "train"].groupby("block").loss.mean()
    by_duckdb = dict(duckdb.execute(
        "select block, avg(loss) from read_json_auto(?) "
        "where kind = 'train' group by block", [path]).fetchall())
    for block, losses in wanted.items():
        assert close(by_pandas[block], mean(losses)), block
        assert close(by_duckdb[block], mean(losses)), block
    print(f"pandas and DuckDB read {len(records)} records")


def check_runs(path):
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 1, "the report has several runs"
    accuracies = [float(row["test_accuracy"]) for row in rows]
    frame = pandas.read_csv(path)
    assert list(frame.columns) == list(rows[0])
    assert close(frame.test_accuracy.mean(), mean(accuracies))
    found = duckdb.execute("select count(*), avg(test_accuracy) from read_csv(?)",
                           [path]).fetchone()
    assert found[0] == len(rows) and close(found[1], mean(accuracies))
    assert sorted(frame.seed) == sorted(int(row["seed"]) for row in rows)
    print(f"pandas and DuckDB read {len(rows)} runs of a report")


if __name__ == "__main__":
    check_metrics(sys.argv[1])
    check_runs(sys.argv[2])
