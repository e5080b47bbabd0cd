"""Published systems, what Sluice has of them, and whether that is true.

The tables [about] of configs, and for systems without a config
scripts/coverage.toml, say which system is which rows and keys of the program;
what is said there is checked against the program's lists and manual and against
the files of the repository, and made into docs/coverage.md.
"""
import functools
import pathlib
import re
import subprocess
import sys
import tomllib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
from sluice.config import to_toml  # noqa: E402

DIRECTIONS = ["up", "down"]  # of boundary.codec: tables with its keys
KINDS = ["methods", "heads", "corrections", "replicas", "optimizers", "codecs",
         "compressors"]
ALSO_NAMED = ["models", "datasets", "losses"]  # by keys
STATES = ["built", "not yet", "left out"]
TEXTS = {"name", "paper", "state", "study", "note"}
LISTS = {"rows", "tests"}
CONFIGS = "experiments/configs"


class Program:
    """What the program says of itself: rows by kind, and its manual."""

    def __init__(self, rows, manual):
        self.rows = rows
        self.manual = manual
        self.words = set(re.findall(r"[\w-]+", manual))
        self.words.update(*rows.values())

    @classmethod
    def asked(cls, path):
        def says(*arguments):
            return subprocess.run([path, *arguments], check=True, text=True,
                                  capture_output=True).stdout
        rows = {kind: re.findall(r"^  (\S+)  +\S", says("list", kind), re.M)
                for kind in KINDS + ALSO_NAMED}
        return cls(rows, says("help", "config"))

    def has_key(self, name):
        return re.search(rf"^  {re.escape(name)} +\w|\[{re.escape(name)}\]|"
                         rf"\.{re.escape(name)}\]", self.manual, re.M)


def read(root):
    """The systems, group by group, and rows that are no system's."""
    table = tomllib.loads((root / "scripts/coverage.toml").read_text())
    groups = {group["title"]: {"title": group["title"],
                               "system": list(group.get("system", []))}
              for group in table["group"]}
    for path in (root / CONFIGS).rglob("*.toml"):
        config = tomllib.loads(path.read_text())
        about = config.get("about", {})
        if "name" in about:
            name = path.relative_to(root / CONFIGS).with_suffix("").as_posix()
            groups[about["group"]]["system"].append(system_of(config, name))
    for group in groups.values():
        group["system"].sort(key=lambda system: system["name"].lower())
    return list(groups.values()), table.get("basics", [])


def system_of(config, name):
    """The system that a config says it is."""
    about = config["about"]
    system = {key: " ".join(about[key].split()) if key in TEXTS else about[key]
              for key in about.keys() & (TEXTS | LISTS)}
    if "summary" in about:
        method = name.rpartition("/")[2]
        system["rows"] = [f"methods {method}", *about.get("rows", [])]
    keys = {path: functools.reduce(dict.__getitem__, path.split("."), config)
            for path in about.get("keys", [])}
    return system | {"config": name, "keys": to_toml(keys).strip()}


def systems_of(groups):
    return [system for group in groups for system in group["system"]]


def leaves(table):
    for key, value in table.items():
        yield key, value
        if isinstance(value, dict):
            yield from leaves(value)


def wrong_keys(system, program):
    for key, value in leaves(tomllib.loads(system["keys"])):
        if not key.isdigit() and key not in DIRECTIONS \
                and not program.has_key(key):
            yield f"the program has no key '{key}'"
        if isinstance(value, str) and value not in program.words:
            yield f"the program knows no {key} = '{value}'"


def wrong_test(test, root):
    file, name = test.rsplit(" ", 1)
    suite, case = name.split(".")
    path = root / file
    text = path.read_text() if path.exists() else ""
    if not re.search(rf"TEST(_F|_P)?\(\s*{suite},\s*{case}\s*\)", text):
        yield f"there is no test {name} in {file}"


def wrong_shape(system):
    for key in system.keys() - TEXTS - LISTS - {"keys", "config"}:
        yield f"unknown key '{key}'"
    state = system.get("state", "built")
    if state not in STATES:
        yield f"state is '{state}', not one of: {', '.join(STATES)}"
    if state == "built" and not system.get("tests"):
        yield "is built, so name a test"
    if state == "built" and not (system.get("keys") or system.get("rows")):
        yield "is built, so name its rows or keys"
    if state == "left out" and "note" not in system:
        yield "is left out, so say why"


def wrong_in(system, program, root):
    yield from wrong_shape(system)
    for row in system.get("rows", []):
        kind, name = row.split()
        if name not in program.rows.get(kind, []):
            yield f"`sluice list {kind}` has no '{name}'"
    if system.get("keys"):
        yield from wrong_keys(system, program)
    if "study" in system and not (root / CONFIGS / system["study"]).exists():
        yield f"there is no {CONFIGS}/{system['study']}"
    for test in system.get("tests", []):
        yield from wrong_test(test, root)


def forgotten_rows(groups, basics, program):
    named = {row for system in systems_of(groups)
             for row in system.get("rows", [])}
    for kind in KINDS:
        for name in program.rows[kind]:
            if f"{kind} {name}" not in named | set(basics):
                yield (f"no system has the row '{name}' of `sluice list {kind}`:"
                       " say which, or put it among the basics")


def complaints(groups, basics, program, root):
    """A line for everything that is said and isn't so."""
    for system in systems_of(groups):
        for wrong in wrong_in(system, program, root):
            yield f"{system['name']}: {wrong}"
    for row in basics:
        kind, name = row.split()
        if name not in program.rows.get(kind, []):
            yield f"basics: `sluice list {kind}` has no '{name}'"
    yield from forgotten_rows(groups, basics, program)


# The page.

HEAD = """# Coverage

Published systems, and what they are in Sluice. Made by `scripts/coverage` from the tables `[about]` of configs, from
`scripts/coverage.toml` and from what the program lists; a test fails when a row, key, test or study that is named here isn't there. "Not
yet" is what is not built; what is left out has its reason. A study is a card or a sweep whose config is in the repository; its page says
what has been run of it.
"""


def cell(text):
    return text.replace("|", "\\|").replace("\n", ", ").strip()


def link(text, path):
    return f"[{text}](../{path})"


def heading(system):
    paper = system.get("paper")
    return system["name"] + (f" ({paper})" if paper else "")


def meaning(system):
    """Its rows and keys, and what is to be said of them."""
    rows = [row.split() for row in system.get("rows", [])]
    keys = [f"`{line}`" for line in system.get("keys", "").splitlines() if line]
    # A policy is in the keys already.
    names = [f"`{name}`" for kind, name in rows
             if kind == "methods" and f'"{name}"' not in system.get("keys", "")]
    said = [", ".join(names), ", ".join(keys), system.get("note", "")]
    return cell("; ".join(part for part in said if part))


def tests_cell(system):
    return ", ".join(link(f"`{test.rsplit(' ', 1)[1]}`", test.rsplit(" ", 1)[0])
                     for test in system["tests"])


def config_cell(system):
    name = system.get("config")
    return link(f"`{name}`", f"{CONFIGS}/{name}.toml") if name else ""


def study_cell(system):
    name = system.get("study")
    return link(f"`{name}`", f"{CONFIGS}/{name}") if name else ""


def built_table(systems):
    lines = ["| system | keys, or a name in `sluice list methods` | test | config | study |",
             "|---|---|---|---|---|"]
    for system in systems:
        cells = [cell(heading(system)), meaning(system), tests_cell(system),
                 config_cell(system), study_cell(system)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def in_state(group, state):
    return [system for system in group["system"]
            if system.get("state", "built") == state]


def unbuilt_list(groups, state):
    for group in groups:
        for system in in_state(group, state):
            reason = system.get("note")
            yield "- " + heading(system) + (f": {reason}" if reason else "")


def rows_section(groups, program):
    """Every row of the program's tables, with the systems that have it."""
    for kind in KINDS:
        named = []
        for name in program.rows[kind]:
            users = [system["name"] for system in systems_of(groups)
                     if f"{kind} {name}" in system.get("rows", [])]
            named.append(f"`{name}`" + (f" ({'; '.join(users)})" if users else ""))
        yield f"- `sluice list {kind}`: " + ", ".join(named)


def page(groups, program):
    lines = [HEAD]
    for group in groups:
        if in_state(group, "built"):
            lines += [f"## {group['title']}", "",
                      *built_table(in_state(group, "built")), ""]
    lines += ["## Not yet", "", *unbuilt_list(groups, "not yet"), "",
              "## Left out", "", *unbuilt_list(groups, "left out"), "",
              "## Rows", "",
              "What the program lists, with the systems above that name it.", "",
              *rows_section(groups, program)]
    return "\n".join(lines) + "\n"


def root_of_repository():
    return pathlib.Path(__file__).resolve().parents[2]
