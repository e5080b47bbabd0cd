#!/usr/bin/env python3
"""Says of a system what isn't so, and checks that it is found.

usage: coverage_test.py FOLDER_OF_COVERAGE_PY
"""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, sys.argv.pop(1))
import coverage  # noqa: E402

ROWS = {kind: [] for kind in coverage.KINDS} | {"heads": ["linear"]}
MANUAL = """[boundary]
  policy  string   the policy (default "backprop"; backprop | local_loss)

[boundary.head]
  name    string   the head
"""
SYSTEM = {
    "name": "Greedy",
    "rows": ["heads linear"],
    "keys": 'boundary = {policy = "local_loss", head = {name = "linear"}}',
    "tests": ["tests/greedy_test.cpp Greedy.Learns"],
    "study": "cards/greedy.toml",
}
FILES = {
    "tests/greedy_test.cpp": "TEST(Greedy, Learns) {\n",
    "experiments/configs/cards/greedy.toml": "",
    "experiments/configs/small/greedy.toml": """
extends = ["base.toml"]

[boundary]
policy = "local_loss"
head = {name = "linear", hidden = 3}

[about]
name = "Greedy"
paper = '''
Someone,
2020'''
group = "Local losses"
summary = "blocks that learn by themselves"
keys = ["boundary.policy", "boundary.head.name"]
rows = ["heads linear"]
tests = ["tests/greedy_test.cpp Greedy.Learns"]
""",
    "experiments/configs/small/plain.toml": "blocks = 2\n",
    "scripts/coverage.toml": """
basics = ["heads conv"]

[[group]]
title = "Local losses"

[[group.system]]
name = "Bio"
state = "not yet"

[[group]]
title = "Pipelines"
""",
}


class Coverage(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in FILES.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def complaints(self, rows=None, basics=(), **changes):
        program = coverage.Program(ROWS | (rows or {}), MANUAL)
        system = {key: value for key, value in (SYSTEM | changes).items()
                  if value is not None}
        groups = [{"title": "Local losses", "system": [system]}]
        return list(coverage.complaints(groups, list(basics), program, self.root))

    def assert_found(self, wrong, **changes):
        self.assertEqual(self.complaints(**changes), [f"Greedy: {wrong}"])

    def test_what_is_so_is_accepted(self):
        self.assertEqual(self.complaints(), [])

    def test_a_row_that_is_gone_is_found(self):
        self.assertEqual(self.complaints(rows={"heads": []}, keys=None),
                         ["Greedy: `sluice list heads` has no 'linear'"])

    def test_a_row_that_nobody_names_is_found(self):
        found = self.complaints(rows={"heads": ["linear", "conv"]})
        self.assertEqual(len(found), 1)
        self.assertIn("no system has the row 'conv'", found[0])
        self.assertEqual(self.complaints(rows={"heads": ["linear", "conv"]},
                                         basics=["heads conv"]), [])

    def test_a_basic_row_that_is_gone_is_found(self):
        self.assertEqual(self.complaints(basics=["heads conv"]),
                         ["basics: `sluice list heads` has no 'conv'"])

    def test_a_key_that_is_gone_is_found(self):
        self.assert_found("the program has no key 'reach'",
                          keys="boundary = {reach = 1}")

    def test_a_value_that_is_gone_is_found(self):
        self.assert_found("the program knows no policy = 'greedy'",
                          keys='boundary = {policy = "greedy"}')

    def test_a_config_with_a_table_about_is_a_system_of_its_group(self):
        groups, basics = coverage.read(self.root)
        self.assertEqual(basics, ["heads conv"])
        local, pipelines = groups
        self.assertEqual(pipelines, {"title": "Pipelines", "system": []})
        bio, greedy = local["system"]
        self.assertEqual(bio, {"name": "Bio", "state": "not yet"})
        self.assertEqual(greedy, {
            "name": "Greedy", "paper": "Someone, 2020", "config": "small/greedy",
            "rows": ["methods greedy", "heads linear"],
            "keys": 'boundary = {policy = "local_loss", head = {name = "linear"}}',
            "tests": SYSTEM["tests"]})

    def test_a_test_that_is_gone_is_found(self):
        for test in ("tests/greedy_test.cpp Greedy.Forgets",
                     "tests/gone_test.cpp Greedy.Learns"):
            file, name = test.split()
            self.assert_found(f"there is no test {name} in {file}", tests=[test])

    def test_a_study_that_is_gone_is_found(self):
        self.assert_found("there is no experiments/configs/cards/gone.toml",
                          study="cards/gone.toml")

    def test_what_is_built_has_a_test(self):
        self.assert_found("is built, so name a test", tests=None)

    def test_what_is_left_out_has_a_reason(self):
        self.assert_found("is left out, so say why", state="left out")

    def test_an_unknown_state_or_key_is_found(self):
        self.assertIn("Greedy: unknown key 'confg'",
                      self.complaints(confg="small/greedy"))
        self.assertIn("Greedy: state is 'soon', not one of: built, not yet, left out",
                      self.complaints(state="soon"))

    def test_the_page_has_every_system_in_its_state(self):
        systems = [SYSTEM, {"name": "Later", "state": "not yet"},
                   {"name": "Never", "state": "left out", "note": "no reason"}]
        page = coverage.page([{"title": "Local losses", "system": systems}],
                             coverage.Program(ROWS, MANUAL))
        built, rest = page.split("## Not yet")
        self.assertIn("| Greedy | `boundary = ", built)
        self.assertIn("[`Greedy.Learns`](../tests/greedy_test.cpp)", built)
        later, never = rest.split("## Left out")
        self.assertIn("- Later\n", later)
        self.assertIn("- Never: no reason\n", never)
        self.assertIn("`linear` (Greedy)", never)


if __name__ == "__main__":
    unittest.main()
