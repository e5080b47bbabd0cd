"""Configs: what is given as a path, a dict or TOML becomes a file and a command
line."""
import contextlib
import math
import os
import pathlib
import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from sluice.errors import SluiceError

# A config: the path of a TOML file, a dict, or a text of TOML.
Config = str | os.PathLike[str] | dict[str, Any]

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+$")
ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r",
           "\b": "\\b", "\f": "\\f"}


def toml_string(text: str) -> str:
    def escaped(c: str) -> str:
        if c in ESCAPES:
            return ESCAPES[c]
        return f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else c

    return '"' + "".join(map(escaped, text)) + '"'


def toml_key(key: str) -> str:
    return key if BARE_KEY.match(key) else toml_string(key)


def toml_number(number: float) -> str:
    if math.isnan(number):
        return "nan"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    text = float.__repr__(number)  # a subclass of numpy's has its own
    mantissa, e, exponent = text.partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    return mantissa + e + exponent


def plain(value: Any) -> Any:
    """A number or an array of numpy's or torch's, as Python's."""
    if hasattr(value, "tolist") and not isinstance(value, (int, float)):
        listed = value.tolist()
        # Numbers that Python doesn't have, such as long doubles, stay as they
        # are there.
        return float(listed) if type(listed) is type(value) else listed
    return value


def toml_value(value: Any) -> str:
    """The value as TOML on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, os.PathLike):
        return toml_string(os.fspath(value))
    if isinstance(value, dict):
        pairs = (f"{toml_key(str(key))} = {toml_value(each)}"
                 for key, each in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple, range)):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if hasattr(value, "tolist") and not isinstance(value, (int, float)):
        return toml_value(plain(value))
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return toml_number(value)
    raise SluiceError(f"{value!r} has no place in a config: it takes booleans, "
                      "numbers, texts, lists and dicts")


def to_toml(config: Mapping[str, Any]) -> str:
    """A dict as TOML; keys with dots, "optimizer.lr", are those of tables."""
    return "".join(f"{toml_key(key)} = {toml_value(value)}\n"
                   for key, value in nested(config).items())


def nested(config: Mapping[str, Any]) -> dict[str, Any]:
    """{"a.b": 1} as {"a": {"b": 1}}."""
    result: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, dict):
            value = nested(value)
        *tables, last = str(key).split(".")
        table = result
        for name in tables:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise SluiceError(f"{key}: {name} is a value, and no table")
        if isinstance(value, dict) and isinstance(table.get(last), dict):
            table[last].update(value)
        else:
            table[last] = value
    return result


def overrides(settings: Mapping[str, Any]) -> list[str]:
    """Keyword arguments as key=value; optimizer__lr means optimizer.lr."""
    return [f"{key.replace('__', '.')}={toml_value(value)}"
            for key, value in settings.items()]


def axes(settings: Mapping[str, Any]) -> list[str]:
    """As overrides(), where a list is an axis: key=a,b,c."""
    result = []
    for key, value in settings.items():
        value = plain(value)
        if isinstance(value, (list, tuple, range)):
            text = ",".join(map(toml_value, value))
        elif isinstance(value, Space):
            text = value.text
        else:
            text = toml_value(value)
        result.append(f"{key.replace('__', '.')}={text}")
    return result


class Space:
    """Values of an axis of sweep(), in the words of `sluice sweep`.

        sluice.sweep("config.toml", samples=20,
                     optimizer__lr=sluice.Space("log_uniform(1e-4,1e-1)"))
        sluice.Space("0.1,0.2 if boundary.policy=backprop")
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"Space({self.text!r})"


def is_toml(config: str | os.PathLike[str]) -> bool:
    """Whether a text is TOML and no path."""
    if isinstance(config, os.PathLike):
        return False
    return "\n" in config or ("=" in config and not os.path.exists(config))


def as_dict(config: str | dict[str, Any]) -> dict[str, Any]:
    """A config that was given as a dict or as TOML, as a dict."""
    if isinstance(config, dict):
        return nested(config)
    try:
        return tomllib.loads(config)
    except tomllib.TOMLDecodeError as error:
        raise SluiceError(f"the config is no TOML: {error}") from None


@contextlib.contextmanager
def as_file(config: Config) -> Iterator[str]:
    """The path of a file that says what `config`, a path, a dict or TOML, says.
    Files that it extends are looked for from the current folder."""
    if not isinstance(config, (str, os.PathLike, dict)):
        raise SluiceError("a config is a path, a dict or a text of TOML, not "
                          f"{type(config).__name__}")
    if not isinstance(config, dict) and not is_toml(config):
        yield os.fspath(config)
        return
    said = as_dict(config if isinstance(config, dict) else str(config))
    if isinstance(said.get("extends"), list):
        said["extends"] = [os.path.abspath(file) for file in said["extends"]]
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        path = pathlib.Path(folder) / "config.toml"
        path.write_text(to_toml(said), encoding="utf-8")
        yield str(path)


def name_of(path: str | os.PathLike[str], settings: Mapping[str, Any]) -> str:
    """The name of the experiment in that file, as far as it can be told."""
    if isinstance(settings.get("name"), str):
        return settings["name"]
    try:
        said = tomllib.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "run"  # the program says what is wrong
    if isinstance(said.get("name"), str):
        return said["name"]
    bases = said.get("extends")
    for base in reversed(bases if isinstance(bases, list) else []):
        found = name_of(pathlib.Path(path).parent / str(base), {})
        if found != "run":
            return found
    return "run"
