#!/usr/bin/env python3
"""Checks the direction of includes in a source tree.

usage: includes.py ROOT

experiments -> {modules, auxiliary_heads, transport} -> lib -> {lib/kernels,
lib/base}, and transport knows lib/base only. Prints each include that goes another way and
each cycle of includes; exit status 1 when there is one.
"""
import pathlib
import re
import sys

# What a folder may include beside itself. A file belongs to the longest of
# these folders that it lies below.
MAY_INCLUDE = {
    "lib/base": set(),
    "lib/kernels": {"lib/base"},
    "lib": {"lib/base", "lib/kernels"},
    "modules": {"lib", "lib/base"},
    "auxiliary_heads": {"lib", "lib/base"},
    "transport": {"lib/base"},
    "experiments": {"modules", "auxiliary_heads", "transport", "lib", "lib/base"},
}
LIBTORCH = re.compile(r"(torch|ATen|c10|caffe2)/")
BOOST = re.compile(r"boost/")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
ENDINGS = {".h", ".cpp", ".cu", ".cuh"}


def folder_of(path):
    fitting = [name for name in MAY_INCLUDE if path.startswith(name + "/")]
    return max(fitting, key=len, default=None)


def read_tree(root):
    """The includes of each source file, as paths from the root."""
    tree = {}
    for top in {name.split("/")[0] for name in MAY_INCLUDE}:
        for file in (root / top).rglob("*"):
            if file.suffix in ENDINGS:
                name = file.relative_to(root).as_posix()
                tree[name] = INCLUDE.findall(file.read_text(encoding="utf-8"))
    return tree


def wrong_way(file, included):
    """Why `file` may not include `included`, or None."""
    here, there = folder_of(file), folder_of(included)
    if there is not None and there != here and there not in MAY_INCLUDE[here]:
        return f"{here} may not include {there}"
    if LIBTORCH.match(included) and here in ("lib/base", "lib/kernels",
                                          "transport"):
        return f"{here} may not know LibTorch"
    if BOOST.match(included) and here not in ("transport", "experiments"):
        return "only transport and experiments may include Boost"
    if ".." in included.split("/"):
        return "includes are written from the root of the repository"
    return None


def cycles(tree):
    """Each cycle of includes once, as a list of files."""
    done, path, found = set(), [], []

    def visit(file):
        if file in path:
            found.append(path[path.index(file):] + [file])
        elif file not in done:
            path.append(file)
            for included in tree[file]:
                if included in tree:
                    visit(included)
            done.add(path.pop())

    for file in sorted(tree):
        visit(file)
    return found


def complaints(tree):
    for file in sorted(tree):
        for included in tree[file]:
            reason = wrong_way(file, included)
            if reason:
                yield f'{file}: "{included}": {reason}'
    for cycle in cycles(tree):
        yield "cycle of includes: " + " -> ".join(cycle)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    tree = read_tree(pathlib.Path(sys.argv[1]))
    if not tree:
        sys.exit(f"no sources below {sys.argv[1]}")
    found = list(complaints(tree))
    print("\n".join(found) or f"{len(tree)} files, all includes go down")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
