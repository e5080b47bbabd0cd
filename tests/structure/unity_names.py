#!/usr/bin/env python3
"""Checks that no two sources of one library define a constant or a type of the
same name.

usage: unity_names.py ROOT

Several sources are compiled together, and which ones changes with every new
source: two names that don't meet today do tomorrow. Prints each name with its
files; exit status 1 when there is one.
"""
import collections
import pathlib
import re
import sys

LIBRARIES = ["auxiliary_heads", "experiments", "lib", "modules", "transport"]
# At the beginning of a line, so within namespaces alone. What is specialised,
# or is an attribute, has no name of its own.
NAMES = [
    re.compile(r"^(?:static )?constexpr [^(={;<]*(?:<[^={;]*>)?[^(={;<]*?"
               r"\b(k[A-Z]\w*)\s*(?:\[\w*\])*\s*[=({]", re.MULTILINE),
    re.compile(r"^(?:struct|class|enum class) (?!alignas)(\w+)[^;{(]*\{",
               re.MULTILINE),
]


def names_in(text):
    """The constants and types that a source defines."""
    return {name for pattern in NAMES for name in pattern.findall(text)}


def complaints(sources):
    """sources: text by path from the root."""
    files = collections.defaultdict(list)
    for path, text in sorted(sources.items()):
        for name in sorted(names_in(text)):
            files[path.split("/")[0], name].append(path)
    for (_, name), paths in files.items():
        if len(paths) > 1:
            yield f"{name}: {', '.join(paths)}"


def main():
    root = pathlib.Path(sys.argv[1])
    sources = {file.relative_to(root).as_posix():
               file.read_text(encoding="utf-8")
               for library in LIBRARIES
               for file in (root / library).rglob("*.cpp")}
    found = list(complaints(sources))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
