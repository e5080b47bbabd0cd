"""Failures that an issue has, so that they hide no others."""
import pathlib
import re
import tomllib

FILE = pathlib.Path(__file__).parent / "known_failures.toml"


def read(file=FILE):
    return tomllib.loads(file.read_text()).get("known", [])


def says(config, path, value):
    """Whether the config says it: "*" is anything, "!x" anything but x."""
    if path not in config:
        return False
    if isinstance(value, str) and value.startswith("!"):
        return config[path] != value[1:]
    return value == "*" or config[path] == value


def issue_of(verdict, config, known):
    """The issue of a failure that is known; None: it is new."""
    for each in known:
        if re.search(each["text"], verdict.text) and all(
                says(config, path, value)
                for path, value in each.get("where", {}).items()):
            return each["issue"]
    return None
