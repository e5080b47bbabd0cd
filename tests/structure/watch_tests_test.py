#!/usr/bin/env python3
"""What scripts/test says of suites that run for long, and of skipped ones.

usage: watch_tests_test.py FOLDER_OF_WATCH_TESTS_PY
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(FOLDER))
import watch_tests  # noqa: E402

BEGIN = "----------------------------------------------------------\n"


def logged(number, name, output):
    return (f"{number}/17 Test: {name}\nCommand: x\nOutput:\n{BEGIN}{output}\n"
            f"<end of output>\nTest time =   0.10 sec\n{BEGIN}Test Passed.\n")


NO_PYTEST = ("skipped: /usr/bin/python3 has no pytest; scripts/setup --checks "
             "installs it into .venv")
NO_MPI = "/t/mpi_run_test.cpp:48: Skipped\nthis build has no MPI\n"
NO_CHROMIUM = "/t/program_test.cpp:211: Skipped\nthere is no chromium here\n"


def lines_of(*outputs):
    log = "".join(logged(i, name, output)
                  for i, (name, output) in enumerate(outputs))
    return list(watch_tests.summary(
        watch_tests.suites_in(log.splitlines(keepends=True))))


class Summary(unittest.TestCase):
    def test_counts_what_the_packages_of_the_checks_would_bring(self):
        python = [(f"Python.{i}", NO_PYTEST) for i in range(15)]
        self.assertEqual(
            lines_of(*python, ("MpiRun", NO_MPI + NO_MPI), ("Quick", "ran")),
            ["Skipped, wholly or in part: 16 suites. Missing: MPI (1), pytest "
             "and packages (15). To have them run: scripts/setup --checks"])

    def test_gives_other_reasons_as_they_are(self):
        self.assertEqual(
            lines_of(("Report", NO_CHROMIUM)),
            ["Skipped, wholly or in part: 1 suite. Why: there is no chromium "
             "here (1)"])

    def test_says_nothing_where_all_ran(self):
        self.assertEqual(lines_of(("Quick", "ran")), [])

    def test_reads_what_pytest_says(self):
        self.assertEqual(
            watch_tests.lack_of(next(watch_tests.reasons_in(
                "SKIPPED [1] t.py:3: could not import 'pandas': No module")))[1],
            "scripts/setup --checks")


class Running(unittest.TestCase):
    def test_names_a_suite_once_that_runs_for_long(self):
        time = [0]
        running = watch_tests.Running(now=lambda: time[0])
        running.see("        Start   1: Install.ASmallProgramBuilds")
        running.see("        Start   2: Quick")
        time[0] = 59
        self.assertEqual(list(running.long_ones()), [])
        running.see("  1/788 Test   #2: Quick ..........   Passed    0.03 sec")
        time[0] = 61
        self.assertEqual(
            list(running.long_ones()),
            ["        Install.ASmallProgramBuilds has run for 60 s: it builds "
             "programs against an installed copy; still waiting for it"])
        self.assertEqual(list(running.long_ones()), [])


class Program(unittest.TestCase):
    def test_passes_on_what_comes_and_reads_the_log_that_was_written(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "LastTest.log"
            command = [sys.executable, FOLDER / "watch_tests.py", log]
            with subprocess.Popen(command, stdin=subprocess.PIPE, text=True,
                                  stdout=subprocess.PIPE) as program:
                program.stdin.write("        Start 1: MpiRun\n")
                program.stdin.flush()
                program.stdout.readline()
                log.write_text(logged(1, "MpiRun", NO_MPI))
                said, _ = program.communicate("100% tests passed\n")
            self.assertIn("100% tests passed\n", said)
            self.assertIn("Missing: MPI (1)", said)


if __name__ == "__main__":
    unittest.main()
