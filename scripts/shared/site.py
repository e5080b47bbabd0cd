"""Gathers the pages of the site in a folder that mkdocs reads: the Markdown of
the repository at its paths, the files that it links to, and a reference that is
generated from what the program prints.

usage: site.py PROGRAM FOLDER
"""
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from concurrent import futures

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s#]*)(#[^)\s]*)?(\))")
FENCE = re.compile(r"^\s*```")
IMAGES = {".svg", ".png"}
# Pages that belong to something else than the site.
LEFT_OUT = {"scripts/doxygen/main.md"}


def files_of_repository():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, text=True, capture_output=True).stdout
    return [path for path in listed.splitlines() if (ROOT / path).exists()]


def shown_as(text, language=""):
    fence = "````" if "```" in text else "```"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


class Site:
    """The folder with the pages, and what the pages link to."""

    def __init__(self, folder):
        self.folder = folder
        self.files = set(files_of_repository())
        self.broken = []

    def write(self, path, text):
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def copy_pages(self):
        for path in sorted(self.files - LEFT_OUT):
            if path.endswith(".md"):
                self.write(path, self.with_links(path))

    def copy_assets(self):
        for path in self.files:
            if path.startswith("docs/assets/"):
                self.copy(path)

    def copy(self, path):
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, self.folder / path)

    def with_links(self, path):
        """The page, with links to sources led to a page that shows them."""
        lines = []
        fenced = False
        for line in (ROOT / path).read_text().splitlines(keepends=True):
            if FENCE.match(line):
                fenced = not fenced
            if not fenced and not line.startswith("    "):
                line = LINK.sub(lambda link: self.led(path, link), line)
            lines.append(line)
        return "".join(lines)

    def led(self, page, link):
        begin, target, anchor, end = link.groups(default="")
        if not target or "://" in target:
            return link.group()
        here = os.path.dirname(page)
        path = os.path.normpath(os.path.join(here, target))
        if path in self.files and path.endswith(".md"):
            return link.group()
        if path in self.files and pathlib.Path(path).suffix in IMAGES:
            self.copy(path)
            return link.group()
        if path not in self.files and not (ROOT / path).is_dir():
            self.broken.append(f"{page} links to {target}, which isn't there")
            return link.group()
        shown = self.show_source(path)
        return begin + os.path.relpath(shown, here or ".") + anchor + end

    def show_source(self, path):
        shown = f"source/{path}.md"
        if (self.folder / shown).exists():
            return shown
        if path in self.files:
            text = (ROOT / path).read_text()
            language = {".py": "python", ".toml": "toml", ".h": "cpp",
                        ".cpp": "cpp"}.get(pathlib.Path(path).suffix, "")
        else:
            inside = sorted(file for file in self.files
                            if file.startswith(path + "/"))
            text, language = "\n".join(inside), ""
        self.write(shown, f"---\nsearch:\n  exclude: true\n---\n# {path}\n\n"
                   + shown_as(text, language))
        return shown


class Program:
    """What the program prints about itself, kept in a file from one call to the
    next: a start of the program takes half a second, and 230 are needed."""

    def __init__(self, path, kept):
        self.path = path
        self.kept = kept
        stat = os.stat(path)
        self.build = [stat.st_size, stat.st_mtime_ns]
        self.said = {}
        if kept.exists():
            before = json.loads(kept.read_text())
            if before["build"] == self.build:
                self.said = before["said"]

    def keep(self):
        self.kept.write_text(json.dumps({"build": self.build,
                                         "said": self.said}))

    def prints(self, *words):
        key = " ".join(words)
        if key not in self.said:
            self.said[key] = self.asked(words)
        return self.said[key]

    def asked(self, words):
        done = subprocess.run([self.path, *words], text=True,
                              capture_output=True,
                              env={**os.environ, "COLUMNS": "100"})
        if done.returncode:
            sys.exit(f"sluice {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout.replace(self.path, "sluice")

    def all(self, commands):
        with futures.ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda words: self.prints(*words), commands))


def generated(title, command, text):
    return (f"# {title}\n\n*Generated by `scripts/docs` from "
            f"`{command}`.*\n\n{text}")


def cell(text):
    return html.escape(text, quote=False).replace("|", "\\|")


def rows_of(lines):
    """(name, meaning) of lines like "  name   meaning", with what goes on."""
    rows = []
    for line in lines:
        row = re.match(r"  (\S+) {2,}(.*)$", line)
        if row:
            rows.append([row[1], row[2]])
        elif rows and line.startswith("   "):
            rows[-1][1] += " " + line.strip()
    return rows


def table(head, rows):
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|"] +
                     [f"| {' | '.join(row)} |" for row in rows]) + "\n"


def command_pages(site, program):
    names = [name for name, _ in rows_of(
        program.prints("help").partition("Commands:\n")[2].splitlines())]
    topics = ["sweep", "plan", "inject"]
    pages = []
    for name, text in zip(names, program.all([["help", name] for name in names])):
        page = f"commands/{name}.md"
        site.write(page, generated(f"sluice {name}", f"sluice help {name}",
                                   shown_as(text)))
        pages.append({name: page})
    for name in set(topics) - set(names):
        page = f"commands/{name}.md"
        site.write(page, generated(name, f"sluice help {name}",
                                   shown_as(program.prints("help", name))))
        pages.append({name: page})
    return pages


def key_rows(lines):
    rows = []
    for line in lines:
        row = re.match(r"  (\S+) {2,}(\S.*?) {2,}(\S.*)$", line)
        if row:
            rows.append(list(row.groups()))
        elif rows and line.startswith("   "):
            rows[-1][2] += " " + line.strip()
    return [[f"`{name}`", cell(kind), cell(meaning)]
            for name, kind, meaning in rows]


def key_pages(site, program):
    """A page for each table of a config, with the tables below it."""
    sections = [["", []]]
    for line in program.prints("help", "config").splitlines():
        if line and not line.startswith(" ") and (
                line.startswith("[") or line.startswith("With ")):
            sections.append([line, []])
        else:
            sections[-1][1].append(line)
    pages = {}
    owner = "run"
    for title, lines in sections:
        inside = re.match(r"\[+([a-z_]+)|With ([a-z]+)\.", title)
        if inside:
            owner = inside[1] or inside[2]
        about = " ".join(line for line in lines
                         if line and not line.startswith(" "))
        text = f"## {title}\n\n" if title else ""
        if about:
            text += cell(about) + "\n\n"
        rows = key_rows(lines)
        if rows:
            text += table(["key", "type", "meaning"], rows) + "\n"
        pages.setdefault(owner, []).append(text)
    listed = []
    for owner, texts in pages.items():
        title = "Keys of a run" if owner == "run" else f"[{owner}]"
        page = f"keys/{owner}.md"
        site.write(page, generated(title, "sluice help config",
                                   "".join(texts)))
        listed.append({title: page})
    return listed


def table_pages(site, program):
    """A page for each table of choices, and one for each method."""
    tables = rows_of(program.prints("list").split("\n\n")[0].splitlines())
    pages, methods = [], []
    for name, what in tables:
        text = program.prints("list", name)
        entries = rows_of(text.splitlines())
        texts = program.all([["list", name, entry] for entry, _ in entries])
        if name == "methods":
            for (entry, _), shown in zip(entries, texts):
                page = f"methods/{entry}.md"
                site.write(page, generated(
                    entry, f"sluice list methods {entry}", shown_as(shown)))
                methods.append({entry: page})
            continue
        body = table(["name", "what it is"],
                     [[f"[`{entry}`](#{entry.lower()})", cell(meaning)]
                      for entry, meaning in entries])
        for (entry, _), shown in zip(entries, texts):
            body += (f"\n## {entry} {{ #{entry.lower()} }}\n\n"
                     + shown_as(shown))
        page = f"tables/{name}.md"
        site.write(page, generated(what[0].upper() + what[1:],
                                   f"sluice list {name}", body))
        pages.append({name: page})
    return pages, methods


def record_page(site):
    """The structs of lib/metrics/records.h that are lines of metrics.jsonl."""
    text = (ROOT / "lib/metrics/records.h").read_text()
    body = ("A line of `metrics.jsonl` is a JSON object; `kind` says which of "
            "these it is. Fields with `= {}` may be absent.\n")
    for comment, struct in re.findall(
            r"((?:^///.*\n)*)^(struct \w+[^;]*\{\n(?:.*\n)*?\};\n)", text, re.M):
        kind = re.search(r'SLUICE_RECORD\("(\w+)"', struct)
        if not kind:
            continue
        about = " ".join(line[3:].strip() for line in comment.splitlines())
        fields = re.sub(r"\n *SLUICE_RECORD\((?:[^()]*)\)", "", struct)
        fields = re.sub(r"\n private:\n(?:.*\n)*?(?=\};)", "\n", fields)
        body += f"\n## {kind[1]}\n\n{cell(about)}\n\n{shown_as(fields, 'cpp')}"
    site.write("records/index.md", generated(
        "Records", "lib/metrics/records.h", body))
    return ["records/index.md"]


def api_page(site):
    site.write("api/index.md", generated(
        "C++ headers", "the headers, by Doxygen",
        '<a href="html/index.html">Open the reference</a> of classes, '
        "functions and options. [Programs](../docs/programs.md) and "
        "[plug-ins](../docs/plugins.md) show how they are used.\n"))
    return ["api/index.md"]


def filled(entry, generated_pages):
    """A part of the navigation, with its generated pages."""
    if isinstance(entry, list):
        return [filled(each, generated_pages) for each in entry]
    if isinstance(entry, dict):
        return {title: filled(each, generated_pages)
                for title, each in entry.items()}
    return generated_pages[entry] if entry.endswith("/") else entry


def main():
    import yaml

    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    program = Program(sys.argv[1], folder / "said.json")
    shutil.rmtree(folder / "pages", ignore_errors=True)
    site = Site(folder / "pages")
    site.copy_pages()
    site.copy_assets()
    if site.broken:
        sys.exit("\n".join(site.broken))
    tables, methods = table_pages(site, program)
    generated_pages = {
        "commands/": command_pages(site, program),
        "keys/": key_pages(site, program),
        "tables/": tables, "methods/": methods,
        "records/": record_page(site), "api/": api_page(site)}
    program.keep()
    config = yaml.safe_load((ROOT / "docs/mkdocs.yml").read_text())
    config["nav"] = filled(config["nav"], generated_pages)
    config["docs_dir"] = "pages"
    config["site_dir"] = os.path.relpath(ROOT / "build/site", folder)
    config["hooks"] = [str(ROOT / "scripts/shared/site_hooks.py")]
    config["not_in_nav"] = "/source/\n"
    (folder / "mkdocs.yml").write_text(json.dumps(config, indent=1))


if __name__ == "__main__":
    main()
