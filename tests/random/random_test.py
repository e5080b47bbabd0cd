#!/usr/bin/env python3
"""What is wrong on purpose is found, and what is right isn't complained of.

The program under test is a script here, which does to each config what the
config's name says.
"""
import json
import pathlib
import random
import stat
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import known  # noqa: E402
from draw import Choices, drawn  # noqa: E402
from factors import Factors  # noqa: E402
from manual import Manual, keys_in, keys_of_all  # noqa: E402
from oracle import Judge, Verdict  # noqa: E402
from pairs import Search, pairs_of  # noqa: E402
from program import Program  # noqa: E402
from repair import repaired  # noqa: E402

MANUAL = """  name             string   name of the experiment (default "run")
  batch_size       integer  size of a batch (default 64; at least 1)
  timeout          integer  a limit
                            (default 600; in s; 1 to 1000000)
  hashes           boolean  write hashes (default false)
  engine           string   what runs the blocks: one thread,
                            or more (default "virtual";
                            virtual | threads)

[pipeline]
turns cut into micro-batches
  micro_batches_of_a_turn_which_is_a_long_name
      integer: number (default 1; 1 to 256)

[[timetable]]
phases
  turn  integer  begins (default 0)

With boundary.policy = "backprop"
[boundary]
  reach  integer  gradients (default 0; 0 to 1000)
"""
BOUNDARY = """boundary
[boundary]
keys for all
boundary.policy
  policy  string  the policy: see `sluice list` (default "backprop")
      one of: backprop, local_loss, blend
boundary.reach
  reach  integer  gradients pass [with boundary.policy =
                  "backprop" or boundary.policy = "local_loss"] (default 0;
                  in blocks; 0 to 1000)
boundary.head.name
  name  string  the head [with boundary.policy = "local_loss"] (default
                "linear")
      one of: linear, conv
"""

# Stands in the place of sluice; `name` says what goes wrong.
WRONG = r'''#!/usr/bin/env python3
import json, os, pathlib, signal, sys, time, tomllib
words = sys.argv[1:]
resumes = words[1] == "--resume"
folder = pathlib.Path(words[2] if resumes else words[words.index("--dir") + 1])
if words[0] == "replay":
    sys.exit(0)
file = folder / "config.toml" if resumes else pathlib.Path(words[1])
text = file.read_text()
how = tomllib.loads(text)["name"]
engine = next((w for w in words if w.startswith("engine=")), "")
def fail(status, *lines):
    print(*lines, sep="\n", file=sys.stderr)
    sys.exit(status)
if how == "status_1": fail(1, "sluice: check failed")
if how == "signal": os.kill(os.getpid(), signal.SIGSEGV)
if how == "hang": time.sleep(600)
if how == "refused": fail(2, "sluice: blocks: no")
if how == "two_lines": fail(2, "sluice: something", "sluice: blocks: no")
if how == "no_line": fail(2)
if how == "torch": fail(2, "sluice: mat1 and mat2 shapes cannot be multiplied")
if how == "engine_refuses" and engine: fail(2, "sluice: not on this engine")
if how == "resume_fails" and resumes: fail(1, "sluice: no")
wrong = (how == "other_bits" and engine) or (how == "resumed_bits" and resumes)
folder.mkdir(exist_ok=True)
(folder / "config.toml").write_text(text)
with open(folder / "metrics.jsonl", "w") as out:
    for turn in range(4):
        print(json.dumps({"kind": "hash", "turn": turn, "block": 1, "w":
              "b" if wrong and turn == 3 else "a", "time": time.time()}), file=out)
    print(json.dumps({"kind": "evaluation", "loss": 2 if how == "other_loss"
          and engine else 1}), file=out)
for turn in (2, 4):
    saved = folder / "checkpoints" / f"turn-{turn}"
    saved.mkdir(parents=True, exist_ok=True)
    (saved / "block-1.safetensors").write_text(
        str(time.time()) if how == "other_file" and resumes else "weights")
'''


class TheManual(unittest.TestCase):
    def test_has_the_choices_limits_and_conditions_of_each_key(self):
        keys = {key.path: key for key in keys_in(BOUNDARY)}
        self.assertEqual(keys["boundary.policy"].choices,
                         ("backprop", "local_loss", "blend"))
        self.assertEqual(keys["boundary.reach"].limits, "0 to 1000")
        self.assertEqual(keys["boundary.reach"].needs,
                         (("boundary.policy", "backprop"),
                          ("boundary.policy", "local_loss")))

    def test_has_the_keys_of_all_configs_without_lists_of_tables(self):
        keys = {key.path: key for key in keys_of_all(MANUAL)}
        self.assertEqual(
            list(keys),
            ["name", "batch_size", "timeout", "hashes", "engine",
             "pipeline.micro_batches_of_a_turn_which_is_a_long_name"])
        self.assertEqual(keys["engine"].choices, ("virtual", "threads"))
        self.assertEqual(keys["hashes"].choices, ("true", "false"))
        self.assertEqual(keys["timeout"].limits, "1 to 1000000")


class AJudge(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "sluice"
        path.write_text(WRONG)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self.judge = Judge(Program(path, limit=120), folder.name + "/run")

    def verdict(self, how, **config):
        return self.judge.judge({"name": how, **config})

    def assert_fails(self, how, check, text, **config):
        verdict = self.verdict(how, **config)
        self.assertEqual((verdict.outcome, verdict.check), ("failed", check),
                         verdict)
        self.assertRegex(verdict.text, text)

    def test_lets_a_right_run_pass_after_all_checks(self):
        verdict = self.verdict("right")
        self.assertEqual(verdict.outcome, "ran", verdict)
        self.assertEqual(verdict.done, ("run", "engines", "resume"))

    def test_lets_a_refusal_in_one_line_pass(self):
        verdict = self.verdict("refused")
        self.assertEqual((verdict.outcome, verdict.text),
                         ("refused", "sluice: blocks: no"))

    def test_finds_other_ends_than_0_and_2(self):
        self.assert_fails("status_1", "run", "exit 1: sluice: check failed")
        self.assert_fails("signal", "run", "signal 11")
        self.judge.program.limit = 1
        self.assert_fails("hang", "run", "hang")

    def test_finds_refusals_that_are_not_one_line_of_ours(self):
        self.assert_fails("two_lines", "run", "several lines")
        self.assert_fails("no_line", "run", "no error")
        self.assert_fails("torch", "run", "LibTorch")

    def test_finds_other_bits_and_figures_of_an_engine(self):
        self.assert_fails("other_bits", "engines",
                          "turn 3, block 1, replica 1: w is a and b")
        self.assert_fails("other_loss", "engines", "other evaluations")
        self.assert_fails("engine_refuses", "engines", "exit 0, but by threads")

    def test_finds_other_bits_of_a_resume(self):
        self.assert_fails("resumed_bits", "resume", "turn 3, block 1")
        self.assert_fails("other_file", "resume", "another block-1.safetensors")
        self.assert_fails("resume_fails", "resume", "exit 1: sluice: no")

    def test_compares_no_bits_where_a_race_decides(self):
        racing = {"replicas.count": 2, "replicas.policy": "shared"}
        self.assertEqual(self.verdict("other_bits", **racing).done, ("run",))


class KnownFailures(unittest.TestCase):
    KNOWN = [{"issue": "56", "text": "not on the CPU",
              "where": {"device": "cuda", "engine": "!virtual"}}]

    def issue(self, text, **config):
        return known.issue_of(Verdict("failed", text=text), config, self.KNOWN)

    def test_hide_only_what_they_say(self):
        self.assertEqual(self.issue("x is not on the CPU", device="cuda",
                                    engine="processes"), "56")
        self.assertIsNone(self.issue("other bits", device="cuda",
                                     engine="processes"))
        self.assertIsNone(self.issue("not on the CPU", device="cuda",
                                     engine="virtual"))
        self.assertIsNone(self.issue("not on the CPU", engine="processes"))

    def test_of_the_repository_can_be_read(self):
        for each in known.read():
            self.assertTrue(each["issue"] and each["text"])


TABLES = """
[base]
hashes = true
[chance]
"" = 0.5
[values]
[needs]
[left_out]
"name" = "a folder"
[left_out_values]
[models.mlp]
[[data]]
name = "drawn_digits"
keys = {}
[takes]
texts = []
rows = []
[pairs]
left_out = []
[pairs.base]
[pairs.also]
"""
MODEL = """model.name
  name  string  the model: see `sluice list` (default "mlp")
      one of: mlp, gpt
"""


def choices_of(folder, more="", model=MODEL):
    file = pathlib.Path(folder) / "choices.toml"
    file.write_text(TABLES + more)
    keys = keys_of_all(MANUAL) + keys_in(BOUNDARY) + keys_in(model)
    return Choices(Manual(keys), folder, file)


class Configs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.choices = choices_of(folder.name)

    def all_drawn(self):
        return [drawn(self.choices, 1, number) for number in range(200)]

    def test_are_the_same_by_seed_and_number(self):
        self.assertEqual(drawn(self.choices, 1, 7), drawn(self.choices, 1, 7))
        self.assertNotEqual(self.all_drawn()[:9],
                            [drawn(self.choices, 2, n) for n in range(9)])

    def test_have_a_new_choice_at_once(self):
        found = {config.get("boundary.head.name") for config in self.all_drawn()}
        self.assertEqual(found, {None, "linear", "conv"})

    def test_say_an_option_only_with_its_choice(self):
        for config in self.all_drawn():
            if "boundary.head.name" in config:
                self.assertEqual(config["boundary.policy"], "local_loss")

    def test_are_repaired_without_what_the_refusal_names(self):
        config = {"hashes": True, "boundary.policy": "local_loss",
                  "boundary.head.name": "conv", "engine": "threads"}
        self.assertEqual(
            repaired(self.choices, config, "sluice: boundary.policy: no"),
            {"hashes": True, "engine": "threads"})
        self.assertIsNone(repaired(self.choices, {"hashes": True}, "hashes"))

    def test_of_a_key_that_is_gone_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            choices = choices_of(folder, '[base.more]\nold = 1\n')
            self.assertEqual(list(choices.unknown()), ["more"])


class Pairs(unittest.TestCase):
    """Rules of a program that is a function here."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.factors = Factors(choices_of(folder.name))

    def search(self, probe, run=lambda row: ("ran", "")):
        search = Search(self.factors, random.Random(1), probe, run)
        self.rows = []
        for pair, row in search.rows():
            self.rows.append(row)
            search.step(pair, row)
        return search

    def test_run_all_where_nothing_is_refused(self):
        search = self.search(lambda row: "")
        self.assertEqual(search.refused, {})
        self.assertEqual(len(search.ran), search.pairs)
        covered = set().union(*map(pairs_of, self.rows))
        self.assertLessEqual(set(self.factors.pairs()), covered)

    def test_are_hidden_by_no_pair_that_is_refused(self):
        def probe(row):
            apart = row["engine"] == "threads" and row["model.name"] == "gpt"
            return "gpt has no threads" if apart else ""
        search = self.search(probe)
        self.assertEqual(search.refused, {frozenset(
            {("engine", "threads"), ("model.name", "gpt")}):
            "gpt has no threads"})
        self.assertEqual(len(search.ran), search.pairs - 1)

    def test_are_not_refused_for_what_one_of_them_needs(self):
        def probe(row):
            lost = row["boundary.head.name"] == "conv" and \
                row["model.name"] != "gpt"
            return "conv wants gpt" if lost else ""
        search = self.search(probe)
        self.assertEqual(search.refused, {frozenset(
            {("boundary.head.name", "conv"), ("model.name", "mlp")}):
            "conv wants gpt"})

    def test_that_fail_only_when_they_run_hide_no_others(self):
        def run(row):
            wrong = row["engine"] == "threads" and row["model.name"] == "gpt"
            return ("failed", "no") if wrong else ("ran", "")
        search = self.search(lambda row: "", run)
        self.assertEqual(list(search.refused.values()), ["failed: no"])

    def test_with_an_option_bring_its_choice(self):
        self.search(lambda row: "")
        self.assertTrue(all(row["boundary.policy"] == "local_loss"
                            for row in self.rows
                            if row["boundary.head.name"] != "-"))


if __name__ == "__main__":
    unittest.main()
