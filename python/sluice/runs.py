"""Runs: started, followed, and read again."""
from __future__ import annotations

import atexit
import html
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any, Self

from sluice import config as configs
from sluice import frames, records
from sluice.errors import SluiceError, error_of
from sluice.loggers import Loggers, names_of
from sluice.program import call, find_program
from sluice.safetensors import File

if TYPE_CHECKING:
    import pandas
    from torch import nn

Record = dict[str, Any]  # a line of metrics.jsonl
Callback = Callable[[Record], object]

# Also a sweep with runs still to be done.
INTERRUPTED = (130, 4, -signal.SIGINT, -signal.SIGTERM)
PATIENCE = 1.1  # s, after which a second signal ends a run at once

_running: set[Process] = set()


@atexit.register
def _end_all() -> None:
    """Runs that still go on when Python ends save a checkpoint and end."""
    for process in list(_running):
        process.end()


class Process:
    """A command of the program that goes on beside this one."""

    def __init__(self, arguments: list[Any]) -> None:
        self._out = tempfile.TemporaryFile()
        self._err = tempfile.TemporaryFile()
        self._name = f"sluice {arguments[0]}"
        self.was_cancelled = False
        # A group of its own: Ctrl-C reaches it once, by cancel().
        self._process = subprocess.Popen(
            [find_program(), *map(str, arguments)], stdin=subprocess.DEVNULL,
            stdout=self._out, stderr=self._err, start_new_session=True,
            env={"SLUICE_PYTHON": sys.executable, **os.environ})
        _running.add(self)

    @property
    def status(self) -> int | None:
        """None while it runs."""
        status = self._process.poll()
        if status is not None:
            _running.discard(self)
        return status

    def signal(self, again: bool = False) -> None:
        """Asks it to end, once: a second signal a second later ends it without
        a checkpoint."""
        if self.status is None and (again or not self.was_cancelled):
            self.was_cancelled = True
            self._process.send_signal(signal.SIGINT)

    def end(self) -> None:
        self.signal()
        self.wait()

    def wait(self, timeout: float | None = None) -> int | None:
        self._process.wait(timeout)
        return self.status

    @staticmethod
    def _text(file: IO[bytes]) -> str:
        return os.pread(file.fileno(), os.fstat(file.fileno()).st_size,
                        0).decode(errors="replace")

    @property
    def output(self) -> str:
        return self._text(self._out)

    @property
    def notes(self) -> str:
        return self._text(self._err)

    def check(self) -> None:
        """Raises the error that the command ended with, if there is one. To be
        cancelled is no error."""
        status = self.status
        if status is None or status == 0:
            return
        if self.was_cancelled and status in INTERRUPTED:
            return
        raise error_of(status, self.notes, self._name)


class Run:
    """A run's folder, and the run itself while it goes on.

    run() and load() return it. Each property reads the folder anew.

        run = sluice.load("runs/mine-1")
        run.state                     # "done"
        run.result["accuracy"]        # 0.98
        run.curves("loss").plot()
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = pathlib.Path(folder)
        self._process: Process | None = None  # where it was started here
        self._loggers = Loggers((), self.folder)

    # What it is.

    @property
    def name(self) -> str:
        """The folder's name: "mine-1"."""
        return self.folder.name

    @property
    def config(self) -> dict[str, Any]:
        """The resolved config, with all defaults, as a dict."""
        return tomllib.loads(self._text("config.toml"))

    @property
    def about(self) -> dict[str, Any]:
        """run.json: command, versions, host, commit, ... as a dict."""
        return json.loads(self._text("run.json"))

    @property
    def is_over(self) -> bool:
        """Whether no process works on the run any more."""
        if self._process is not None:
            return self._process.status is not None
        return (self.folder / "done").exists() or not records.is_held(
            self.folder)

    @property
    def state(self) -> str:
        """"running", "done", "stopped" (with a checkpoint), "failed",
        "diverged", or "killed"."""
        return self.last_state if self.is_over else "running"

    @property
    def last_state(self) -> str:
        """State of a run that is known to be over."""
        if (self.folder / "done").exists():
            return "done"
        try:
            said = json.loads(self._text("status.json")).get("state")
        except (SluiceError, ValueError):
            said = "failed"  # before its first turn
        return "killed" if said == "running" else said

    @property
    def output(self) -> str:
        """What the program has printed, where the run was started here."""
        return self._process.output if self._process else ""

    def _text(self, file: str) -> str:
        try:
            return (self.folder / file).read_text(encoding="utf-8")
        except OSError as error:
            raise SluiceError(f"{self.folder / file}: {error.strerror}"
                              ) from None

    # What it has measured.

    def records(self) -> list[Record]:
        """All lines of metrics.jsonl, as dicts."""
        return records.Reader(self.folder).read()

    @property
    def metrics(self) -> pandas.DataFrame:
        """All records, a row each; `kind` says what a row is."""
        return frames.frame_of(self.records())

    @property
    def evaluations(self) -> pandas.DataFrame:
        """A row per evaluation: turn, epoch, loss, accuracy, ... of the test
        split; those of other splits have a prefix."""
        return frames.frame_of(self.records(), "evaluation")

    @property
    def turns(self) -> pandas.DataFrame:
        """A row per update of a block that was logged."""
        return frames.frame_of(self.records(), "train")

    def curves(self, measure: str = "loss") -> pandas.DataFrame:
        """A frame indexed by turn, with columns "block 1", ... of training, and
        "test", "validation", "training" of evaluations.

            run.curves("accuracy")["test"].plot()
        """
        return frames.curves_of(self.turns, self.evaluations, measure)

    @property
    def result(self) -> Record:
        """The last evaluation, as a dict; empty when there was none."""
        found = [r for r in self.records() if r.get("kind") == "evaluation"]
        return found[-1] if found else {}

    # How it goes on.

    def follow(self) -> Iterator[Record]:
        """Yields records as they come, from the first one, until the run is over.
        Raises SluiceError at the end of a run that was started here and failed.

            for record in sluice.run("config.toml", wait=False).follow():
                print(record["kind"])
        """
        yield from records.follow(self.folder, lambda: self.is_over)
        self.check()

    def __iter__(self) -> Iterator[Record]:
        return self.follow()

    def wait(self, timeout: float | None = None) -> Self:
        """Waits until the run is over, and returns the run. Raises SluiceError
        when it failed, TimeoutError after `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self.is_over:
            if end is not None and time.monotonic() > end:
                raise TimeoutError(f"{self.folder}: runs on after {timeout} s")
            time.sleep(records.PERIOD / 2)
        self.check()
        return self

    def check(self) -> None:
        """Raises the error that ended the run, if one did and it was started here."""
        if self._process is None or self._process.status is None:
            return
        self._loggers.finish()
        self._process.check()

    def cancel(self, now: bool = False) -> Self:
        """Ends the run as Ctrl-C does: after the turns that its blocks have been
        given, with a checkpoint, from which resume() goes on. now: at once,
        without one. Returns when it has ended."""
        if self._process is None:
            raise SluiceError(f"{self.folder}: was not started here; send "
                              "SIGINT to the process that `lock` there names")
        self._process.signal()
        if now and self._process.status is None:
            time.sleep(PATIENCE)
            self._process.signal(again=True)
        self._process.wait()
        self._loggers.finish()
        return self

    def resume(self, *, logger: str | Iterable[str] | None = None,
               wait: bool = True, on_turn: Callback | None = None,
               on_evaluation: Callback | None = None,
               on_event: Callback | None = None, **overrides: Any) -> Self:
        """Continues the run from its last checkpoint; overrides as those of
        run().

            run.resume(epochs=20)
        """
        return self._start(["run", "--resume", self.folder,
                            *configs.overrides(overrides)], names_of(logger),
                           Callbacks(on_turn, on_evaluation, on_event), wait)

    def _start(self, arguments: list[Any], loggers: list[str],
               callbacks: Callbacks, wait: bool) -> Self:
        before = self._begun_time()
        self._process = Process(arguments)
        try:
            if loggers or not wait:
                self._wait_until_begun(before)
            self._loggers = Loggers(loggers, self.folder)
            return self._go_on(callbacks, wait)
        except BaseException:
            self._process.end()
            raise

    def _begun_time(self) -> int | None:
        try:  # of what it writes after it has read its config
            return (self.folder / "run.json").stat().st_mtime_ns
        except OSError:
            return None

    def _wait_until_begun(self, before: int | None) -> None:
        """What it was given, which may be a temporary file, has been read by
        then; and what is wrong with it is raised."""
        while not self.is_over:
            if self._begun_time() not in (None, before):
                return
            time.sleep(records.PERIOD / 4)
        self.check()

    def _go_on(self, callbacks: Callbacks, wait: bool) -> Self:
        if wait:
            self._tell(callbacks)
        elif callbacks.are_any():
            threading.Thread(target=self._tell_aside, args=(callbacks,),
                             daemon=True).start()
        return self

    def _tell(self, callbacks: Callbacks) -> None:
        if not callbacks.are_any():
            self.wait()
            return
        for record in self.follow():
            if callbacks.tell(record) is False and self._process is not None:
                self._process.signal()

    def _tell_aside(self, callbacks: Callbacks) -> None:
        try:
            self._tell(callbacks)
        except SluiceError:
            pass  # wait() raises it
        except Exception as error:  # a callback's
            if self._process is not None:
                self._process.signal()
            warnings.warn(f"{self.folder}: was ended by a callback: {error!r}",
                          stacklevel=2)

    # What it has learned.

    def export(self, file: str | os.PathLike[str] | None = None,
               checkpoint: str | int | None = None) -> pathlib.Path:
        """Writes the whole model as a safetensors file, and returns its path.
        checkpoint: "best", "last" or a turn; by default the best, or else the
        last."""
        file = self.folder / "model.safetensors" if file is None else file
        call("export", self.folder, "--out", file,
             *([] if checkpoint is None else ["--checkpoint", checkpoint]))
        return pathlib.Path(file)

    def _exported(self, checkpoint: str | int | None) -> File:
        with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
            return File(self.export(pathlib.Path(folder) / "model.safetensors",
                                    checkpoint))

    def weights(self, checkpoint: str | int | None = None) -> dict[str, Any]:
        """A numpy array for each tensor, named as in the uncut model.

            run.weights("last")["layers.0.linear.weight"].shape
        """
        return self._exported(checkpoint).numpy()

    def model(self, checkpoint: str | int | None = None) -> nn.Module:
        """The model as an nn.Module in evaluation mode, with the weights of that
        checkpoint: see load_model().

            logits = run.model()(images)
        """
        from sluice.models import model_of

        return model_of(self._exported(checkpoint))

    def evaluate(self, split: str = "test",
                 samples: int = 256) -> dict[str, Any]:
        """What `sluice eval` makes of the best checkpoint, or else the last:
        the line that it prints, and the tensors `inputs`, `labels` and `logits`
        of the split's first samples, as torch's."""
        flags = {"test": [], "validation": ["--validation"],
                 "training": ["--train"]}
        if split not in flags:
            raise SluiceError(f"there is no split {split!r}; there are "
                              f"{', '.join(flags)}")
        with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
            file = pathlib.Path(folder) / "logits.safetensors"
            text = call("eval", self.folder, *flags[split], "--logits", file,
                        "--samples", samples)
            return {"text": text.strip(), **File(file).torch()}

    def sample(self, prompt: str = "\n", tokens: int = 200, *,
               temperature: float = 1.0, seed: int = 0,
               text: str | os.PathLike[str] | None = None,
               checkpoint: str | int | None = None) -> str:
        """Text from a language model: the prompt, and so many bytes more.

            print(run.sample("ROMEO:", 500, temperature=0.8))

        temperature: 0 takes the most probable byte each time. text: the file
        that it was trained on, where it isn't found.
        """
        from sluice import sampling

        sampling.check_bytes(self.config["data"])
        file = sampling.text_file(self.config["data"]) if text is None else text
        return sampling.sample(self.model(checkpoint), sampling.tokens_of(file),
                               prompt, tokens, temperature, seed)

    # How it looks.

    def _facts(self) -> dict[str, str]:
        facts = {"run": str(self.folder), "state": self.state}
        try:
            result = self.result
        except SluiceError as error:
            return facts | {"metrics": str(error)}
        if result:
            facts |= {"turns": str(result["turn"]),
                      "test loss": f"{result['loss']:.4f}"}
        if "accuracy" in result:  # not where targets are numbers
            facts["test accuracy"] = f"{100 * result['accuracy']:.2f} %"
        return facts

    def __repr__(self) -> str:
        facts = self._facts()
        folder = facts.pop("run")
        return f"<Run {folder}: " + ", ".join(
            text if key == "state" else f"{key} {text}"
            for key, text in facts.items()) + ">"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(key)}</th>"
            f"<td style='text-align:left'>{html.escape(str(text))}</td></tr>"
            for key, text in self._facts().items())
        return f"<table>{rows}</table>"


class Callbacks:
    """What is called with a record: on_turn with those of kind "train",
    on_evaluation with evaluations, on_event with all."""

    def __init__(self, on_turn: Callback | None,
                 on_evaluation: Callback | None,
                 on_event: Callback | None) -> None:
        self._of_kind: dict[Any, Callback | None] = {
            "train": on_turn, "evaluation": on_evaluation}
        self._of_all = on_event

    def are_any(self) -> bool:
        return self._of_all is not None or any(
            f is not None for f in self._of_kind.values())

    def tell(self, record: Record) -> bool:
        """False when a callback wants the run to end."""
        wanted = [self._of_kind.get(record.get("kind")), self._of_all]
        answers = [callback(record) for callback in wanted if callback]
        return not any(answer is False for answer in answers)


def new_folder(name: str) -> pathlib.Path:
    """Makes runs/NAME-N with the first free number, as the program does."""
    number = 1
    while True:
        folder = pathlib.Path("runs") / f"{name}-{number}"
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            number += 1


def run(config: configs.Config, *,
        folder: str | os.PathLike[str] | None = None, overwrite: bool = False,
        wait: bool = True, logger: str | Iterable[str] | None = None,
        on_turn: Callback | None = None, on_evaluation: Callback | None = None,
        on_event: Callback | None = None, **overrides: Any) -> Run:
    """Trains a network as a config describes it.

        run = sluice.run({"model": {"name": "mlp"}, "epochs": 1}, blocks=3)
        print(run)

    config: the path of a TOML file, a dict, or a text of TOML.
    folder: the run's; by default runs/NAME-1, runs/NAME-2, ...
    overwrite: removes a run that is in the folder.
    wait: returns when the run is over; else at once (see Run.follow, .wait and
        .cancel). A run that goes on when Python ends is ended with a checkpoint.
    logger: "wandb", "mlflow", or a list of them: they are told what the run
        measures, while it goes on (python -m sluice.track).
    on_turn, on_evaluation, on_event: called with each record, a dict, as it
        comes: of a block's update, of an evaluation, of any kind. One that
        returns False ends the run, with a checkpoint.
    overrides: keys of the config; optimizer__lr=0.1 means optimizer.lr, and
        **{"optimizer.lr": 0.1} does too.

    Returns the Run. Raises SluiceError with the program's line of what is wrong;
    at Ctrl-C it ends the run, with a checkpoint.
    """
    callbacks = Callbacks(on_turn, on_evaluation, on_event)
    loggers = names_of(logger)
    with configs.as_file(config) as file:
        own = folder is None
        if folder is None:
            folder = new_folder(configs.name_of(file, settings_of(overrides)))
        arguments = ["run", file, *configs.overrides(overrides), "--dir", folder]
        if overwrite:
            arguments.append("--overwrite")
        try:
            return Run(folder)._start(arguments, loggers, callbacks, wait)
        finally:
            if own:
                _remove_empty(folder)


def settings_of(overrides: dict[str, Any]) -> dict[str, Any]:
    return {key.replace("__", "."): value for key, value in overrides.items()}


def _remove_empty(folder: str | os.PathLike[str]) -> None:
    try:
        os.rmdir(folder)
    except OSError:
        pass  # a run is there
