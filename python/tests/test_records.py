"""metrics.jsonl is read as it grows."""
import json
import math
import os
import pathlib
import subprocess
import sys

import pytest

import sluice
from sluice.records import Reader, follow, is_held, read

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"


def line(turn, **more):
    return json.dumps({"kind": "train", "turn": turn, **more}) + "\n"


def turns(records):
    return [record["turn"] for record in records]


def test_half_a_line_is_none_yet(tmp_path):
    file = tmp_path / "metrics.jsonl"
    reader = Reader(tmp_path)
    assert reader.read() == []
    file.write_text(line(0) + line(1)[:9])
    assert turns(reader.read()) == [0]
    with open(file, "a") as more:
        more.write(line(1)[9:] + line(2))
    assert turns(reader.read()) == [1, 2]
    assert reader.read() == []


def test_a_run_that_goes_back_is_told_on_without_repeats(tmp_path):
    file = tmp_path / "metrics.jsonl"
    reader = Reader(tmp_path)
    file.write_text(line(0) + line(1) + line(2))
    assert turns(reader.read()) == [0, 1, 2]
    beside = tmp_path / "metrics.partial"
    beside.write_text(line(0) + line(1))
    os.replace(beside, file)
    assert reader.read() == []
    with open(file, "a") as more:
        more.write(line(2, loss=3.0))
    assert reader.read() == [{"kind": "train", "turn": 2, "loss": 3.0}]


def test_nan_is_a_number_and_a_damaged_line_is_named(tmp_path):
    file = tmp_path / "metrics.jsonl"
    file.write_text(line(0, loss="nan", best="-inf", reason="lost"))
    record = Reader(tmp_path).read()[0]
    assert math.isnan(record["loss"])
    assert record["best"] == -math.inf
    assert record["reason"] == "lost"
    file.write_text(line(0) + "{oops\n")
    with pytest.raises(sluice.SluiceError, match="metrics.jsonl:2: is damaged"):
        Reader(tmp_path).read()


def test_what_is_written_before_the_end_is_followed(tmp_path):
    file = tmp_path / "metrics.jsonl"
    looks = []

    def is_over():
        looks.append(len(looks))
        with open(file, "a") as more:
            more.write(line(len(looks)))
        return len(looks) == 3

    assert turns(follow(tmp_path, is_over, period=0)) == [1, 2, 3]


def test_a_lock_that_a_process_holds_is_seen(tmp_path):
    assert not is_held(tmp_path)
    (tmp_path / "lock").write_text("")
    assert not is_held(tmp_path)
    holder = ("import fcntl, sys; file = open(sys.argv[1], 'r+'); "
              "fcntl.lockf(file, fcntl.LOCK_EX); print('held', flush=True); "
              "sys.stdin.read()")
    with subprocess.Popen([sys.executable, "-c", holder, tmp_path / "lock"],
                          stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert is_held(tmp_path)
        process.stdin.close()
    assert not is_held(tmp_path)


def test_all_records_of_a_run_want_its_file(tmp_path):
    with pytest.raises(sluice.SluiceError, match="metrics.jsonl: No such file"):
        read(tmp_path)
    (tmp_path / "metrics.jsonl").write_text(line(0) + line(1))
    assert turns(read(tmp_path)) == [0, 1]


def run_of(folder, losses):
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("".join(
        line(turn, block=1, loss=loss) for turn, loss in enumerate(losses)))
    return str(folder)


def turns_to_loss(*folders):
    return subprocess.run([sys.executable, SCRIPTS / "turns-to-loss", *folders],
                          text=True, capture_output=True)


def test_scripts_read_the_same_records(tmp_path):
    slow = run_of(tmp_path / "slow", [9.0, 8.0, 7.0, "nan", 5.0])
    fast = run_of(tmp_path / "fast", [9.0, 7.0, 5.0, 4.0, 3.0])
    done = turns_to_loss(slow, fast)
    assert done.stdout.splitlines()[1:] == [f"{slow}\t1.00\t1.11",
                                            f"{fast}\t0.50\t0.56"]


def test_scripts_end_with_one_line_on_a_damaged_file(tmp_path):
    folder = run_of(tmp_path / "run", [1.0])
    (tmp_path / "run/metrics.jsonl").write_text("{oops\n")
    done = turns_to_loss(folder, folder)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "metrics.jsonl:1: is damaged" in done.stderr
