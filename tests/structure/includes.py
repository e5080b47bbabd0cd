#!/usr/bin/env python3
"""Checks where source files lie, and the direction of their includes.

usage: includes.py ROOT

Every file lies in one of the folders of FLOORS, and includes but files of its
own folder and of floors below it, so that no folder includes one that includes
it back; some folders may not even know all of that (ONLY). A folder has at most
MOST_FILES files. Prints each file and
include that breaks a rule, and each cycle of includes; exit status 1 when there
is one.
"""
import pathlib
import re
import sys
from collections import Counter

# From the ground up. A new folder gets the lowest floor that it can have.
FLOORS = [
    {"lib/base"},
    {"lib/base/files", "lib/base/memory", "lib/base/messages", "lib/kernels"},
    {"lib/schedules/plan", "transport/wire", "experiments/config/files",
     "experiments/data/files"},
    {"lib/memory", "lib/schedules/orders", "lib/tensors", "transport/links"},
    {"lib/schedules/replicas", "lib/tensors/gpu"},
    {"lib/schedules/simulation"},
    {"lib/blocks", "lib/boundaries/inboxes",
     "lib/checkpoints", "lib/metrics", "lib/updates",
     "transport/shared"},
    {"lib/boundaries/codecs", "lib/replicas/centre"},
    {"lib/boundaries", "lib/replicas", "lib/weights", "modules",
     "transport/meeting"},
    {"lib/boundaries/policies", "lib/replicas/compressors",
     "lib/replicas/groups", "auxiliary_heads", "modules/script",
     "experiments/data/samples"},
    {"lib/workers/trained", "auxiliary_heads/predictors",
     "experiments/data/order"},
    {"lib/workers/exchanges", "experiments/data/change"},
    {"lib/workers"},
    {"lib/engines", "lib/workers/ops"},
    {"experiments/data/sets"},
    {"experiments/data/drawn", "experiments/data/fetch"},
    {"experiments/data"},
    {"experiments/plugins"},
    {"experiments/config", "experiments/runs/faults"},
    {"experiments/config/presets", "experiments/config/tables"},
    {"experiments/config/rules"},
    {"experiments/config/reading"},
    {"experiments/config/manual", "experiments/runs/ranks"},
    {"experiments/runs/folder"},
    {"experiments/runs/checkpoints"},
    {"experiments/runs/seats"},
    {"experiments/runs/measuring", "experiments/runs/sinks"},
    {"experiments/runs/processes"},
    {"experiments/runs"},
    {"experiments/runs/uses", "experiments/runs/watch"},
    {"experiments/api", "experiments/card", "experiments/planner",
     "experiments/report/study", "experiments/sweep/file"},
    {"experiments/report/charts", "experiments/sweep"},
    {"experiments/report/page"},
    {"experiments/report/sections"},
    {"experiments/program/help"},
    {"experiments/program"},
]
FLOOR_OF = {folder: floor for floor, folders in enumerate(FLOORS)
            for folder in folders}
# What a folder and those below it may include at most, beside themselves.
ONLY = {
    "lib": [],
    "lib/base": [],
    "lib/kernels": ["lib/base"],
    "lib/schedules": ["lib/base"],
    "transport": ["lib/base"],
    "modules": ["lib"],
    "auxiliary_heads": ["lib"],
}
# More can't be seen at a glance.
MOST_FILES = 45
LIBTORCH = re.compile(r"(torch|ATen|c10|caffe2)/")
NO_LIBTORCH = ["lib/base", "lib/kernels", "lib/schedules", "transport",
               "experiments/config/files", "experiments/data/files"]
TOPS = {folder.split("/")[0] for folder in FLOOR_OF}
BOOST = re.compile(r"boost/")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
ENDINGS = {".h", ".cpp", ".cu", ".cuh"}


def is_below(path, folder):
    return path.startswith(folder + "/")


def folder_of(path):
    return path.rpartition("/")[0]


def read_tree(root):
    """The includes of each source file, as paths from the root."""
    tree = {}
    for top in TOPS:
        for file in (root / top).rglob("*"):
            if file.suffix in ENDINGS:
                name = file.relative_to(root).as_posix()
                tree[name] = INCLUDE.findall(file.read_text(encoding="utf-8"))
    return tree


def wrong_way(file, included):
    """Why `file` may not include `included`, or None."""
    here, there = folder_of(file), folder_of(included)
    if included.split("/")[0] in TOPS and there not in FLOOR_OF:
        return f"{there} is no folder for sources"
    if is_below(included, "lib/kernels") and not is_below(file, "lib"):
        return "only lib may include lib/kernels"
    if there in FLOOR_OF and there != here:
        if FLOOR_OF[there] >= FLOOR_OF.get(here, 0):
            return f"{here} is not above {there}"
        for folder, known in ONLY.items():
            if is_below(file, folder) and not any(
                    is_below(included, other) for other in [folder, *known]):
                return f"{folder} may not include {there}"
    if LIBTORCH.match(included) and any(
            is_below(file, folder) for folder in NO_LIBTORCH):
        return f"{here} may not know LibTorch"
    if BOOST.match(included) and not file.startswith(
            ("transport/", "experiments/")):
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
        if folder_of(file) not in FLOOR_OF:
            yield f"{file}: {folder_of(file)} is no folder for sources"
        for included in tree[file]:
            reason = wrong_way(file, included)
            if reason:
                yield f'{file}: "{included}": {reason}'
    for folder, files in sorted(Counter(map(folder_of, tree)).items()):
        if files > MOST_FILES:
            yield (f"{folder}: {files} files; a folder has {MOST_FILES} at "
                   "most: divide it")
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
