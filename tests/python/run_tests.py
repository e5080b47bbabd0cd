"""Runs a file of the Python package's tests; exit status 77: it can't.

usage: run_tests.py FILE
"""
import sys

try:
    import pytest
except ImportError:
    print(f"skipped: {sys.executable} has no pytest; scripts/setup --checks "
          "installs it into .venv")
    sys.exit(77)

# -rs: why a test was skipped.
sys.exit(pytest.main(["-q", "-rs", "-p", "no:cacheprovider", sys.argv[1]]))
