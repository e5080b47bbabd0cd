"""Runs a file of the Python package's tests; exit status 77: it can't.

usage: run_tests.py FILE
"""
import sys


def main():
    try:
        import pytest
    except ImportError:
        print(f"skipped: {sys.executable} has no pytest; scripts/setup "
              "--checks installs it into .venv")
        return 77
    # -rs: why a test was skipped.
    return pytest.main(["-q", "-rs", "-p", "no:cacheprovider", sys.argv[1]])


if __name__ == "__main__":  # worker processes of tests import this file
    sys.exit(main())
