"""Every suite of a program becomes a ctest, whatever its parameters print.

usage: list_suites_test.py CMAKE SCRIPTS_CMAKE
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PRINTED = r"""Running main() from ./googletest/src/gtest_main.cc
Plain.
  IsListed
Cases/Cut.  # TypeParam = int
  OpensABracket/0  # GetParam() = "timetable = [{turn = 8, boundary = {1..."
  HasASemicolon/1  # GetParam() = ";"
Cases/AfterThem.
  ClosesIt/0  # GetParam() = "]}]"
Last.
  IsListed
"""


class ListSuites(unittest.TestCase):
    def test_brackets_of_parameters_hide_no_suite(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            program = folder / "program"
            program.write_text(f"#!/bin/sh\ncat <<'END'\n{PRINTED}END\n")
            program.chmod(0o755)
            subprocess.run(
                [CMAKE, f"-DPROGRAM={program}", f"-DLIST={folder / 'list'}",
                 "-DTIMEOUT=1", "-DPREFIX=Some.", "-P",
                 f"{SCRIPTS}/ListSuites.cmake"], check=True)
            self.assertEqual(
                re.findall(r'^add_test\("([^"]+)', (folder / "list").read_text(),
                           re.M),
                ["Some.Plain", "Some.Cases/Cut", "Some.Cases/AfterThem",
                 "Some.Last"])


if __name__ == "__main__":
    CMAKE, SCRIPTS = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
