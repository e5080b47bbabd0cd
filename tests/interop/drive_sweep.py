"""Lets the real Optuna drive a sweep with scripts/optuna-sweep.

usage: drive_sweep.py FOLDER

Fails unless the trials have the values that their runs' files say, an
interrupted study goes on, and one that begins anew is answered from what is
done.
"""
import json
import pathlib
import subprocess
import sys
import time

import optuna

CONFIG = ["experiments/configs/quickstart/local_loss.toml", "turns=24",
          "data={train=512, test=128}", "evaluate_every=1", "engine=virtual",
          "model={name='mlp', hidden=[16]}", "memory_format=contiguous"]
SPACES = ["optimizer.lr=log_uniform(1e-4,1e-1)", "model.hidden=[16],[8, 8]",
          "batch_size=int(32,64)"]


def command(folder, storage, trials, *more):
    return [sys.executable, "scripts/optuna-sweep", *CONFIG, *SPACES,
            "--trials", str(trials), "--dir", str(folder / "sweep"),
            "--storage", storage, *more]


def trials_in(storage):
    return optuna.load_study(study_name="sluice", storage=storage).trials


def evaluations_of(run):
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [r for r in records if r["kind"] == "evaluation"]


def check_values(storage):
    for trial in trials_in(storage):
        if trial.state == optuna.trial.TrialState.COMPLETE:
            run = pathlib.Path(trial.user_attrs["folder"])
            evaluations = evaluations_of(run)
            assert trial.value == max(e["accuracy"] for e in evaluations), run
            assert trial.intermediate_values == {
                e["turn"]: e["accuracy"] for e in evaluations}, run


def finished(storage):
    return sum(t.state.is_finished() and t.value is not None
               for t in trials_in(storage))


def interrupt(arguments, marker):
    """Starts it, and interrupts it once that file is there."""
    with subprocess.Popen(arguments, start_new_session=True) as driver:
        while not marker.exists():
            assert driver.poll() is None, "it has ended"
            time.sleep(0.05)
        subprocess.run(["kill", "-INT", "--", f"-{driver.pid}"], check=True)
        return driver.wait()


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir()
    storage = f"sqlite:///{folder}/study.db"
    six = command(folder, storage, 6, "--jobs", "2")
    assert interrupt(six, folder / "sweep" / "sweep.json") != 0
    subprocess.run(six, check=True)
    assert finished(storage) == 6, trials_in(storage)
    check_values(storage)

    # Another study with the same proposals has its answers from what is done.
    subprocess.run(command(folder, f"sqlite:///{folder}/first.db", 3),
                   check=True)
    done = sorted((folder / "sweep").glob("cells/*/seed-1/done"))
    written = [file.stat().st_mtime for file in done]
    again = f"sqlite:///{folder}/again.db"
    told = subprocess.run(command(folder, again, 3), check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    assert told.count("(was known)") == 3, told
    check_values(again)
    assert [file.stat().st_mtime for file in done] == written

    pruned = command(folder, f"sqlite:///{folder}/pruned.db", 12, "--prune")
    subprocess.run(pruned, check=True)
    states = [t.state.name for t in trials_in(f"sqlite:///{folder}/pruned.db")]
    assert set(states) <= {"COMPLETE", "PRUNED"}, states
    print(f"Optuna has driven {len(states)} trials, "
          f"{states.count('PRUNED')} pruned")


if __name__ == "__main__":
    main()
