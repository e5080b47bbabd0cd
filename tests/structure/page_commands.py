"""Tries the commands and configs that the pages show, and lists those that are
not tried, with the reason.

usage: page_commands.py PROGRAM ROOT

A command of `sluice` is done in an empty folder, in a form that takes a moment:
`run` reads its config, `sweep` is a dry run, what wants a run has a short one.
A script must be there and know the options. A TOML block must be a config. The
pages of studies and cards are left out: their commands take minutes, and need
data sets; ShippedConfigs reads their configs.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent import futures

QUICK = "experiments/configs/quickstart/backprop.toml"
SHORT_RUN = ["epochs=1", "engine=virtual", "limit.train=128",
             "limit.evaluation=64", "threads=1"]
# Pages whose commands and blocks other tests have.
TESTED_ELSEWHERE = {
    "docs/plugins.md": "NewPlugin, tests/install",
    "docs/results/methods.md": "sweeps of studies, which need data sets: ShippedConfigs",
    "docs/parts.md": "Tutorial.HasConfigsThatAreRead",
    "docs/howto/parts-of-boundaries.md": "Tutorial.HasConfigsThatAreRead",
    "docs/howto/parts-of-updates.md": "Tutorial.HasConfigsThatAreRead",
}
# What isn't tried: the beginning of the line, and why.
NOT_TRIED = [
    ("PYTHONPATH=python", "python/tests: test_network.py, "
     "test_scripted_resnet18.py"),
    ("sluice report runs/compare", "of runs by Python: test_pages.py"),
    ("python -m sluice.track", "python/tests/test_track.py"),
    ("pip install ./python", "scripts/wheel and its test; it takes a network"),
    ("./mine", "a program of one's own: Examples of api_tests"),
    ("./own_run", "Examples.ANetworkOfOnesOwnIsARunBesideThoseOfConfigs"),
    ("cmake", "tests/install"),
    ("add_subdirectory", "tests/install"),
    ("sbatch", "Slurm's own command"),
    ("srun", "needs Slurm; RankRuns have ranks"),
    ("mpirun", "needs MPI; RankRuns have ranks"),
    ("torchrun", "needs PyTorch's launcher; RankRuns have ranks"),
    ("sluice join", "needs a run that goes on; Joined"),
    ("sluice data fetch", "it takes a network; FetchCommand"),
    ("sluice plan experiments/configs/models/gpt2_124m.toml --compare",
     "words of other options; PlannedLargeModels"),
    ("initial_weights=FOLDER", "needs others' weights; PublicNamesOfFiles"),
    ("sluice eval FOLDER", "needs others' weights; PublicNamesOfFiles"),
    ("sluice export RUN --names gpt2", "RUN is no gpt; PublicNamesOfFiles"),
    ("sluice sweep CONFIG optimizer.lr=0.1,0.01 --launcher slurm",
     "needs Slurm; SlurmSweeps"),
]
# Configs that need what a test machine may lack.
CONFIGS_NOT_TRIED = [
    ('name = "torchscript"', "a file that PyTorch scripts: ScriptedModels"),
    ("libmine.so", "a plug-in: NewPlugin"),
    ("manuals.txt", "a text of the reader's"),
    ('device = ', "needs GPUs"),
    ('name = "cifar10"', "needs the data set"),
]
STARTS = re.compile(r"(?:[A-Z_]+=\S+ )*(?:sluice|build/release/sluice|scripts/|"
                    r"\./|python|pip|cmake|cd |ninja|sbatch|srun|mpirun|torchrun|"
                    r"add_subdirectory)")


class Page:
    """The indented commands and the TOML blocks of a page, and its files."""

    def __init__(self, path, text):
        self.path = path
        self.commands = []  # (line, command)
        self.blocks = []  # (line, TOML)
        self.files = {}  # by name: what "Save this as `NAME`" says
        language, block, wanted, before = None, [], None, ""
        for number, line in enumerate(text.splitlines(), 1):
            fence = re.match(r"```(\w*)", line)
            if fence and language is None:
                language, block = fence[1] or "text", []
            elif fence:
                if language == "toml":
                    self.blocks.append((number, "\n".join(block) + "\n"))
                if wanted:
                    self.files[wanted] = "\n".join(block) + "\n"
                    wanted = None
                language = None
            elif language is not None:
                block.append(line)
            else:
                saved = re.search(r"[Ss]ave this as `([\w.]+)`", line)
                wanted = saved[1] if saved else wanted
                if line.startswith("    ") and STARTS.match(line.strip()):
                    self.commands.append((number, before + line.strip()))
                    before = ""
                    if line.endswith("\\"):
                        before = self.commands.pop()[1][:-1]

    def place_of(self, name):
        return f"{self.path.replace('/', '-')}-{name}"


def parts_of(command):
    """The words of each command of a line, without its comment."""
    words, parts = shlex.split(command.replace(";", " ; "), comments=True), [[]]
    for word in words:
        if word in (";", "&&"):
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]


def short_form(words, page):
    """What is done in the place of `sluice WORDS`."""
    stand_ins = {"CONFIG": QUICK, "RUN": "runs/NAME-1",
                 **{name: page.place_of(name) for name in page.files}}
    words = [stand_ins.get(word, word) for word in words]
    name = words[0]
    if name == "watch":
        return [*words, "--once"]
    if name == "sweep":
        options = [word for word in words if word != "--prune"]
        return [*options, "--dry-run", "--dir", "swept"]
    if name == "run" and "--resume" in words:
        return ["checkpoint", "runs/NAME-1"]
    if name in ("run", "verify") or "--compare" in words:
        keys = [word for word in words[1:] if not word.startswith("-")]
        return ["config", *keys]
    return words


class Trial:
    """A folder in which the commands of the pages are done."""

    def __init__(self, program, root, folder):
        self.program, self.root, self.folder = program, root, folder
        for name in ("experiments", "docs", "scripts"):
            (folder / name).symlink_to(root / name)
        made = self.sluice(["run", QUICK, "--dir", "runs/NAME-1", *SHORT_RUN])
        if made:
            sys.exit(made)
        sweeps = folder / "runs/sweeps"
        sweeps.mkdir(parents=True)
        for name in ("fair", "quickstart-sweep", "mine"):
            (sweeps / name).symlink_to(folder / "runs/NAME-1")

    def sluice(self, words):
        """Empty, or what it says is wrong."""
        done = subprocess.run(
            [self.program, *words], cwd=self.folder, text=True,
            stdin=subprocess.DEVNULL, capture_output=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"})
        if done.returncode == 0:
            return ""
        return f"{' '.join(words)}: {(done.stderr or done.stdout).strip()}"

    def script(self, words):
        script = self.root / words[0]
        if not os.access(script, os.X_OK):
            return f"{words[0]} isn't a script"
        text = script.read_text()
        unknown = [word for word in words[1:] if word.startswith("--")
                   and word.partition("=")[0] not in text]
        return f"{words[0]} has no {', '.join(unknown)}" if unknown else ""

    def command(self, page, line, command):
        if page.path in TESTED_ELSEWHERE:
            return ""
        for words in parts_of(command):
            if words[0] in ("sluice", "build/release/sluice"):
                text = "sluice " + " ".join(words[1:])
            else:
                text = " ".join(words)
            if any(text.startswith(begin) for begin, _ in NOT_TRIED):
                continue
            if "NAME.toml" in text or "[" in words[1:2]:
                continue  # a form, not a command
            if text.startswith("sluice "):
                wrong = self.sluice(short_form(words[1:], page))
            elif text.startswith("scripts/"):
                wrong = self.script(words)
            else:
                wrong = "neither tried nor in NOT_TRIED"
            if wrong:
                return f"{page.path}:{line}: {command}\n    {wrong}"
        return ""

    def block(self, page, line, text):
        if page.path in TESTED_ELSEWHERE or "[[device]]" in text or any(
                part in text for part, _ in CONFIGS_NOT_TRIED):
            return ""
        name = page.place_of(f"{line}.toml")
        (self.folder / name).write_text(text)
        wrong = self.sluice(["config", name])
        return f"{page.path}:{line}: a config\n    {wrong}" if wrong else ""


def main():
    program = os.path.abspath(sys.argv[1])
    root = pathlib.Path(sys.argv[2]).resolve()
    paths = [root / "README.md", *sorted(root.glob("docs/**/*.md"))]
    pages = [Page(str(path.relative_to(root)), path.read_text())
             for path in paths]
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(program, root, pathlib.Path(folder))
        tasks = []
        for page in pages:
            for name, text in page.files.items():
                (trial.folder / page.place_of(name)).write_text(text)
            tasks += [(trial.command, page, *each) for each in page.commands]
            tasks += [(trial.block, page, *each) for each in page.blocks]
        with futures.ThreadPoolExecutor(2) as pool:
            wrong = [each for each in pool.map(lambda task: task[0](*task[1:]),
                                               tasks) if each]
    print(f"{sum(len(page.commands) for page in pages)} commands, "
          f"{sum(len(page.blocks) for page in pages)} configs")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
