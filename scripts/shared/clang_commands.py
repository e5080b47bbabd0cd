#!/usr/bin/env python3
"""Writes a compile_commands.json that clang understands, from g++'s.

usage: clang_commands.py BUILD_FOLDER OUT_FOLDER

Leaves out the launcher (ccache), g++'s own flags and the precompiled header,
and CUDA files. Prints the files that are left, one a line.
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
        elif word not in GCC_ONLY:
            kept.append(word)
    return kept


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, out = (pathlib.Path(folder) for folder in sys.argv[1:])
    commands = []
    for entry in json.loads((source / "compile_commands.json").read_text()):
        if entry["file"].endswith(".cpp"):
            words = without_gcc(shlex.split(entry.pop("command")))
            commands.append(entry | {"arguments": words})
    out.mkdir(parents=True, exist_ok=True)
    (out / "compile_commands.json").write_text(json.dumps(commands, indent=1))
    print("\n".join(entry["file"] for entry in commands))


if __name__ == "__main__":
    main()
