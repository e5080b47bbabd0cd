"""Whether each script is one: it begins with the program that runs it, and
that program can read it. A stray redirection into a script, committed with
the rest, would else be found by the one machine that needs the script.

usage: scripts.py ROOT
"""
import pathlib
import subprocess
import sys


def fault(script):
    text = script.read_text()
    first = text.partition("\n")[0]
    if not first.startswith("#!"):
        return "its first line names no program"
    if "python" in first:
        try:
            compile(text, script.name, "exec")
        except SyntaxError as error:
            return f"line {error.lineno}: {error.msg}"
        return None
    read = subprocess.run(["bash", "-n", script], capture_output=True, text=True)
    return read.stderr.strip() or None


def main():
    root = pathlib.Path(sys.argv[1])
    scripts = [path for folder in (root / ".ci", root / "scripts")
               for path in sorted(folder.iterdir())
               if path.is_file() and not path.suffix
               and path.name != "Dockerfile"]
    faults = [f"{script.relative_to(root)}: {found}" for script in scripts
              if (found := fault(script))]
    print("\n".join(faults) or f"{len(scripts)} scripts can be read")
    return bool(faults) or not scripts


if __name__ == "__main__":
    sys.exit(main())
