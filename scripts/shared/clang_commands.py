#!/usr/bin/env python3
"""Writes a compile_commands.json that clang understands, from g++'s.

usage: clang_commands.py BUILD_FOLDER OUT_FOLDER

Leaves out the launcher (ccache), g++'s own flags and the precompiled header,
CUDA files, and those of Python packages (nanobind). Prints the files that are left, one a line.
"""
import json
import pathlib
import shlex
import sys

GCC_ONLY = {"-fpch-preprocess", "-Winvalid-pch"}


def without_gcc(words):
    compiler = next(i for i, word in enumerate(words)
                    if word.endswith(("c++", "g++", "clang++", "clang++-14")))
    kept = ["clang++-14", "-Wno-unknown-warning-option"]
    rest = iter(words[compiler + 1:])
    for word in rest:
        if word == "-include":
            header = next(rest)
            if "cmake_pch" not in header:
                kept += [word, header]
        elif word not in GCC_ONLY and not word.startswith("--param="):
            kept.append(word)
    return kept


def sources_of(entry):
    """The file of an entry; of several that are compiled together, each."""
    file = pathlib.Path(entry["file"])
    if file.parent.name != "Unity":
        return [entry["file"]]
    lines = file.read_text().splitlines()
    return [line.split('"')[1] for line in lines if line.startswith("#include")]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, out = (pathlib.Path(folder) for folder in sys.argv[1:])
    commands = {}  # one a file, though several targets may compile it
    for entry in json.loads((source / "compile_commands.json").read_text()):
        if not entry["file"].endswith((".cpp", ".cxx")):
            continue
        words = without_gcc(shlex.split(entry.pop("command")))
        for file in sources_of(entry):
            if file.endswith(".cpp") and "/site-packages/" not in file:
                each = [file if word == entry["file"] else word
                        for word in words]
                commands.setdefault(
                    file, entry | {"arguments": each, "file": file})
    out.mkdir(parents=True, exist_ok=True)
    (out / "compile_commands.json").write_text(
        json.dumps(list(commands.values()), indent=1))
    print("\n".join(commands))


if __name__ == "__main__":
    main()
