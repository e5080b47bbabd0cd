"""Judges a config by what the program does with it.

A run ends with exit status 0, or with 2 and one line of error. Another engine
gives its bits in lockstep, a replay those of a free run, and a resume those of
the undisturbed run.
"""
import dataclasses
import json
import pathlib
import re
import shutil

from draw import text_of

# What LibTorch's texts have, and ours don't.
FOREIGN = re.compile(
    r"Exception raised from|INTERNAL ASSERT|c10::|at::|torch::|frame #|"
    r"could not create a primitive|std::|Expected all tensors|Traceback|"
    r"terminate called|basic_string|vector::|size of tensor|mat1 and mat2|"
    r"Expected more than|got input size|Sizes of tensors|must match the|"
    r"is invalid for input of size|Trying to |dtype |doesn't require grad|"
    r"not implemented for|bad_alloc|Boost|asio")
# The engine that the first one's bits are compared with.
OTHER = {"virtual": "threads", "threads": "virtual", "processes": "virtual"}


@dataclasses.dataclass
class Verdict:
    outcome: str       # "ran", "refused", "diverged", "failed"
    check: str = ""    # of a failure: "run", "engines", "replay", "resume"
    text: str = ""     # the line of error, or what differs
    done: tuple = ()   # the checks that were made


class Failed(Exception):
    def __init__(self, check, text):
        super().__init__(text)
        self.check = check


def errors_of(outcome):
    return [line for line in outcome.err.splitlines()
            if line.startswith("sluice: ")]


def without_places(text):
    """Without the file and the line of a key."""
    return re.sub(r"\S+\.toml:\d+: ", "", text)


def last_error(outcome):
    return (errors_of(outcome) or outcome.err.splitlines() or [""])[-1]


def complaint_of(outcome):
    """What is wrong about how a command ended; empty: nothing."""
    text = outcome.err.strip()
    if outcome.end not in ("exit 0", "exit 2", "exit 5"):
        return f"{outcome.end}: {last_error(outcome)}"
    if FOREIGN.search(text):
        return f"{outcome.end} with a text of LibTorch's: {text[-600:]}"
    lines = outcome.err.splitlines()
    if not outcome.is_exit(0) and (not lines or
                                   not lines[-1].startswith("sluice: ")):
        return f"{outcome.end}, and the last line is no error: {text[-600:]}"
    return ""


def records_in(folder, kind):
    """The records of a kind, without their times."""
    records = [json.loads(line) for line in
               (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in record.items() if name != "time"}
            for record in records if record.get("kind") == kind]


def hashes_in(folder):
    """(block, replica) -> its hash records, in order."""
    found = {}
    for record in records_in(folder, "hash"):
        seat = record["block"], record.get("replica", 1)
        found.setdefault(seat, []).append(record)
    return found


def evaluations_in(folder):
    return records_in(folder, "evaluation")


def difference_of(seat, left, right):
    """(turn, -block, replica, what) of the first record that differs."""
    for one, other in zip(left, right):
        for name in {**one, **other}:
            if one.get(name) != other.get(name):
                return (one["turn"], -seat[0], seat[1], f"{name} is "
                        f"{one.get(name)} and {other.get(name)}")
    if len(left) != len(right):
        return (10 ** 9, -seat[0], seat[1],
                f"{len(left)} updates against {len(right)}")
    return None


def first_difference(left, right):
    """Where two runs' hashes differ first; empty: nowhere."""
    if left.keys() != right.keys():
        return f"seats {sorted(left)} and {sorted(right)}"
    found = list(filter(None, (difference_of(seat, left[seat], right[seat])
                               for seat in left)))
    if not found:
        return ""
    turn, block, replica, what = min(found)
    return f"turn {turn}, block {-block}, replica {replica}: {what}"


def compare(check, left, right):
    different = first_difference(hashes_in(left), hashes_in(right))
    if different:
        raise Failed(check, f"other bits: {different}")
    mine, theirs = evaluations_in(left), evaluations_in(right)
    if mine != theirs:
        raise Failed(check, f"other evaluations: {mine} and {theirs}")


def checkpoints_in(folder):
    """Turns -> folders, but for `best`."""
    found = {}
    for path in (folder / "checkpoints").glob("*"):
        turn = re.search(r"(\d+)$", path.name)
        if turn and not path.is_symlink():
            found[int(turn[1])] = path
    return dict(sorted(found.items()))


class Judge:
    """Judges configs in a folder of its own."""

    def __init__(self, program, folder, mpirun=None):
        self.program = program
        self.folder = pathlib.Path(folder)
        self.mpirun = mpirun

    def judge(self, config):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.config = config
        self.done = []
        self.file = self.folder / "config.toml"
        self.file.write_text(text_of(config))
        try:
            return self.outcome()
        except Failed as failed:
            return Verdict("failed", failed.check, str(failed),
                           tuple(self.done))

    def outcome(self):
        first = self.command("run", "run", str(self.file), "--dir", "first",
                             before=self.starter())
        if first.is_exit(2):
            return self.refusal(first)
        self.check_other_engine(first)
        if first.is_exit(5):
            return Verdict("diverged", text=last_error(first),
                           done=tuple(self.done))
        self.check_resume()
        return Verdict("ran", done=tuple(self.done))

    def starter(self):
        """What starts ranks, where the group wants them."""
        if self.config.get("replicas.group") != "mpi" or not self.mpirun:
            return ()
        count = self.config["replicas.count"]
        if not isinstance(count, int) or \
                not isinstance(self.config.get("blocks", 2), int):
            return ()
        return (self.mpirun, "-n", str(count * self.config.get("blocks", 2)))

    def command(self, check, *arguments, before=()):
        outcome = self.program.run(*arguments, folder=self.folder,
                                   before=before)
        self.done.append(check)
        if before and outcome.is_exit(2):
            return outcome  # each rank may say it
        complaint = complaint_of(outcome)
        if complaint:
            raise Failed(check, complaint)
        return outcome

    def refusal(self, outcome):
        """Exit status 2 with one line, beside notices, which a run that goes on
        prints too; nothing is left behind."""
        lines = outcome.err.splitlines()
        others = [line for line in lines[:-1] if not is_notice(line)]
        if others:  # lines about keys at the start, before the error
            told = without_places(self.program.run(
                "config", str(self.file), folder=self.folder).err)
            others = [line for line in others if without_places(line) not in told]
        if others and not self.starter():
            raise Failed("run", "exit 2 with several lines: " +
                         " | ".join(lines))
        return Verdict("refused", text=lines[-1].replace(
            str(self.file), "config.toml"), done=tuple(self.done))

    def is_free(self):
        return self.config.get("schedule") == "free"

    def is_race(self):
        """Whether no two runs need have the same bits."""
        exchanged = self.config.get("replicas.count", 1) != 1
        return exchanged and (
            self.config.get("replicas.policy") == "shared"
            or self.config.get("replicas.group") in ("mpi", "nccl"))

    def other_engine(self):
        engine = self.config.get("engine", "virtual")
        # Threads that share a GPU's stream can't capture graphs.
        if engine == "virtual" and self.config.get("graphs"):
            return "processes"
        return OTHER[engine]

    def check_other_engine(self, first):
        if self.is_race():
            return
        if self.is_free():
            if first.is_exit(0):
                self.check_replay()
            return
        engine = self.other_engine()
        other = self.command("engines", "run", str(self.file), "--dir",
                             "other", f"engine={engine}")
        if other.end != first.end:
            raise Failed("engines", f"{first.end}, but by {engine} {other.end}:"
                         f" {last_error(other)}")
        if first.is_exit(0):
            compare("engines", self.folder / "first", self.folder / "other")

    def check_replay(self):
        replay = self.command("replay", "replay", "first")
        if replay.is_exit(2):
            self.done[-1] = "replay refused"

    def check_resume(self):
        """From an earlier checkpoint, as after a kill."""
        whole = self.folder / "first"
        turns = list(checkpoints_in(whole))
        if len(turns) < 2 or self.is_race() or self.is_free():
            return
        cut = self.folder / "resumed"
        shutil.copytree(whole, cut, symlinks=True)
        (cut / "done").unlink(missing_ok=True)
        kept = turns[len(turns) // 2 - 1]
        for turn, path in checkpoints_in(cut).items():
            if turn > kept:
                shutil.rmtree(path)
        resumed = self.command("resume", "run", "--resume", "resumed")
        if resumed.is_exit(2):
            if "resum" in resumed.err or "continue" in resumed.err:
                self.done[-1] = "resume refused"
                return
            raise Failed("resume", f"refused: {last_error(resumed)}")
        compare("resume", whole, cut)
        self.compare_files(whole, cut)

    def compare_files(self, whole, cut):
        """The last checkpoint, file by file."""
        last = checkpoints_in(whole)
        turn = list(last)[-1]
        other = checkpoints_in(cut).get(turn)
        if other is None:
            raise Failed("resume", f"there is no checkpoint of turn {turn}")
        for path in sorted(last[turn].rglob("*.safetensors")):
            twin = other / path.relative_to(last[turn])
            if not twin.exists() or twin.read_bytes() != path.read_bytes():
                raise Failed("resume", f"another {path.name} in turn {turn}")


def is_notice(line):
    """A line about the config that no error follows by itself: what was left
    out or dropped of it."""
    return bool(re.match(r"sluice: .*(is left out|are left out|dropped|"
                         r"has no effect|means nothing)", line))
