"""What both checks share: options, folders, and what is printed of a failure."""
import argparse
import collections
import pathlib
import re
import shutil
import tempfile

import data
import known
from draw import Choices, text_of
from manual import Manual
from oracle import Judge
from program import program_at

ROOT = pathlib.Path(__file__).resolve().parents[2]


def mpirun():
    """That of scripts/setup --checks, with which the program is linked."""
    there = ROOT / ".venv/bin/mpirun"
    return str(there) if there.exists() else shutil.which("mpirun")


def parser(about):
    options = argparse.ArgumentParser(description=about)
    options.add_argument("--program", default=ROOT / "build/release/sluice",
                         type=pathlib.Path)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--device", help="cuda: for a program with the "
                         "simulated GPU, build/release/sluice_sim")
    options.add_argument("--limit", type=float, default=600,
                         help="seconds for one command")
    options.add_argument("--work", default=ROOT / "build/random",
                         type=pathlib.Path, help="folder of data and of "
                         "configs that failed")
    options.add_argument("--mpirun", default=mpirun(),
                         help="what starts ranks, for replicas.group = 'mpi'")
    options.add_argument("--known", default=known.FILE, type=pathlib.Path,
                         help="failures that an issue has")
    return options


class Check:
    """A program under test, and what has become of its configs."""

    def __init__(self, options):
        self.work = options.work.resolve()
        data.make(self.work / "data")
        self.program = program_at(options.program, options.limit)
        self.choices = Choices(Manual.asked(self.program.says),
                               self.work / "data")
        unknown = sorted(self.choices.unknown())
        if unknown:
            raise SystemExit("tests/random/choices.toml has what the program "
                             f"doesn't know: {', '.join(unknown)}")
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-random-")
        self.judge = Judge(self.program, self.folder.name + "/run",
                           options.mpirun)
        self.known = known.read(options.known)
        self.outcomes = collections.Counter()
        self.lines = collections.Counter()
        self.failed = []

    def try_config(self, config, name, again):
        """Judges a config, and prints what fails. `again` repeats it."""
        verdict = self.judge.judge(config)
        issue = None
        if verdict.outcome == "failed":
            issue = known.issue_of(verdict, config, self.known)
        self.outcomes["known" if issue else verdict.outcome] += 1
        for check in verdict.done:
            self.outcomes[f"check: {check}"] += 1
        if verdict.outcome == "refused":
            self.lines[form_of(verdict.text)] += 1
        if issue:
            self.lines[f"known, issue {issue}"] += 1
        elif verdict.outcome == "failed":
            self.print_failure(verdict, config, name, again)
        return verdict, issue

    def print_failure(self, verdict, config, name, again):
        file = self.work / "failed" / f"{name}.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text_of(config))
        self.failed.append(name)
        print(f"\n{name} FAILED, {verdict.check}: {verdict.text}\n"
              f"again: {again}\n{file}:\n{text_of(config)}", flush=True)

    def close(self):
        self.program.close()
        self.folder.cleanup()

    def summary(self, most=0):
        """What came of all, and the refusals by their lines."""
        for outcome, count in sorted(self.outcomes.items()):
            print(f"{count:6} {outcome}")
        for line, count in self.lines.most_common(most or None):
            print(f"{count:6} × {line}")


def form_of(line):
    """A refusal without the numbers and places of its config."""
    line = re.sub(r"^sluice: \S*config\.toml(:\d+)?: ", "", line)
    return re.sub(r"\b\d+(\.\d+)?\b", "N", line)
