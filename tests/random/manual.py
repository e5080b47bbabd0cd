"""Keys of a config, as the program describes them.

A new row of a table, or a new key, is drawn by the checks of this folder as soon
as `sluice help config` has it.
"""
import dataclasses
import re

KEY = re.compile(r'^(\S+)\n((?:  .*\n)+)', re.M)
SHORT = re.compile(r"^  \S+  +(.+?)  +(.*)$")
WIDE = re.compile(r"^ +(.+?): (.*)$")
CONDITION = re.compile(r'([\w.]+) = "([^"]+)"')


@dataclasses.dataclass(frozen=True)
class Key:
    path: str
    type: str
    choices: tuple = ()  # all values; empty: any others
    limits: str = ""     # "0 to 1"
    needs: tuple = ()    # one of these (path, value) must be said; empty: none


def values_of(notes, kind):
    """The choices in "default x; a | b"; of a boolean both."""
    if kind == "boolean":
        return ("true", "false")
    for note in notes.split("; "):
        if " | " in note:
            return tuple(note.split(" | "))
    return ()


def limits_in(notes):
    found = re.search(r"(?:^|; )(at least \S+|at most \S+|\S+ to \S+)$", notes)
    return found[1] if found else ""


def key_of(path, lines):
    """A paragraph of `sluice help config TABLE` as a Key."""
    short = SHORT.match(lines[0])
    kind, first = (short or WIDE.match(lines[1])).groups()
    rest = [line.strip() for line in lines[1 if short else 2:]]
    named = [line.removeprefix("one of: ").split(", ")
             for line in rest if line.startswith("one of: ")]
    text = " ".join([first, *(line for line in rest
                              if not line.startswith("one of: "))])
    condition = re.search(r"\[with (.*?)\]", text)
    notes = re.search(r"\(((?:default|in|at|[^()]* \| |[-\d.e+]+ to ).*)\)$",
                      text)
    notes = notes[1] if notes else ""
    return Key(path, kind,
               tuple(named[0]) if named else values_of(notes, kind),
               limits_in(notes),
               tuple(CONDITION.findall(condition[1])) if condition else ())


def keys_in(text):
    """The keys of `sluice help config TABLE`; those of one path that come with
    different choices each."""
    return [key_of(path, lines.rstrip("\n").split("\n"))
            for path, lines in KEY.findall(text)
            if not path.endswith("[]")]


def keys_of_all(text):
    """The keys of `sluice help config` that need no choice, table by table."""
    keys = []
    for table in text.split("\nWith ")[0].split("\n\n"):
        name = re.match(r"\[+([\w.]+)\]+\n", table)
        if table.startswith("[["):
            continue  # lists of tables
        for lines in re.findall(r"^  \S.*\n(?:   .*\n)*", table + "\n", re.M):
            path = lines.split()[0]
            keys.append(key_of(f"{name[1]}.{path}" if name else path,
                               lines.rstrip("\n").split("\n")))
    return keys


class Manual:
    """All keys of a config."""

    def __init__(self, keys):
        self.keys = list(dict.fromkeys(keys))

    @classmethod
    def asked(cls, program):
        """Asks the program, a function from arguments to what it prints."""
        text = program("help", "config")
        keys = keys_of_all(text)
        for head in sorted(set(re.findall(r"^With (\w+)\.", text, re.M))):
            found = [key for key in keys_in(program("help", "config", head))
                     if key.path.startswith(head + ".")]
            keys = [key for key in keys
                    if not key.path.startswith(head + ".")] + found
        return cls(keys)

    def find(self, path):
        return [key for key in self.keys if key.path == path]

    def choices(self, path):
        return tuple(dict.fromkeys(
            value for key in self.find(path) for value in key.choices))
