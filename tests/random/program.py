"""Starts the program, with a limit on its time."""
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading


@dataclasses.dataclass(frozen=True)
class Outcome:
    end: str  # "exit 2", "signal 11", "hang"
    out: str
    err: str

    def is_exit(self, status):
        return self.end == f"exit {status}"


def kill_group(process):
    """Ends a process that leads its group, and all of its group."""
    try:
        os.killpg(process, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Program:
    """A process for each command."""

    def __init__(self, path, limit=300):
        self.path = str(pathlib.Path(path).resolve())
        self.limit = limit
        self.environment = os.environ | {"OMP_NUM_THREADS": "1"}

    def run(self, *arguments, folder=".", before=()):
        """`before` is the command that starts the program: mpirun -n 4."""
        process = subprocess.Popen(
            [*before, self.path, *arguments], cwd=folder, text=True,
            errors="replace", env=self.environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        try:
            out, err = process.communicate(timeout=self.limit)
        except subprocess.TimeoutExpired:
            kill_group(process.pid)
            return Outcome("hang", *process.communicate())
        code = process.returncode
        end = f"signal {-code}" if code < 0 else f"exit {code}"
        return Outcome(end, out, err)

    def says(self, *arguments):
        """What the command prints; it must not fail."""
        outcome = self.run(*arguments)
        if not outcome.is_exit(0):
            raise SystemExit(f"{self.path} {' '.join(arguments)}: "
                             f"{outcome.end}: {outcome.err}")
        return outcome.out

    def close(self):
        pass


class Host(Program):
    """The program of host.cpp, which forks for each command."""

    def __init__(self, path, limit=300):
        super().__init__(path, limit)
        self.texts = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [self.path], text=True, env=self.environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, *arguments, folder=".", before=()):
        if before:
            return super().run(*arguments, folder=folder, before=before)
        out, err = (pathlib.Path(self.texts.name, name)
                    for name in ("out", "err"))
        command = {"arguments": arguments, "folder": str(folder),
                   "out": str(out), "err": str(err)}
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        forked = int(self.process.stdout.readline())
        late = []
        timer = threading.Timer(
            self.limit, lambda: (late.append(True), kill_group(forked)))
        timer.start()
        end = self.process.stdout.readline().strip()
        timer.cancel()
        return Outcome("hang" if late else end,
                       out.read_text(errors="replace"),
                       err.read_text(errors="replace"))

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.texts.cleanup()


def program_at(path, limit=300):
    return (Host if "host" in pathlib.Path(path).name else Program)(path, limit)
