"""Runs: started, followed, and read again."""
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

from sluice import config as configs
from sluice import frames, records
from sluice.errors import SluiceError, error_of
from sluice.loggers import Loggers, names_of
from sluice.program import call, find_program
from sluice.safetensors import File

# Also a sweep with runs still to be done.
INTERRUPTED = (130, 4, -signal.SIGINT, -signal.SIGTERM)
PATIENCE = 1.1  # s, after which a second signal ends a run at once

_running = set()


@atexit.register
def _end_all():
    """Runs that nobody waited for end with a checkpoint, as at Ctrl-C."""
    for process in list(_running):
        process.end()


class Process:
    """A command of the program that goes on beside this one."""

    def __init__(self, arguments):
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
    def status(self):
        """None while it runs."""
        status = self._process.poll()
        if status is not None:
            _running.discard(self)
        return status

    def signal(self, again=False):
        """Asks it to end, once: a second signal a second later ends it without
        a checkpoint."""
        if self.status is None and (again or not self.was_cancelled):
            self.was_cancelled = True
            self._process.send_signal(signal.SIGINT)

    def end(self):
        self.signal()
        self.wait()

    def wait(self, timeout=None):
        self._process.wait(timeout)
        return self.status

    @staticmethod
    def _text(file):
        return os.pread(file.fileno(), os.fstat(file.fileno()).st_size,
                        0).decode(errors="replace")

    @property
    def output(self):
        return self._text(self._out)

    @property
    def notes(self):
        return self._text(self._err)

    def check(self):
        """Raises the error that it ended with, if it did; that it was cancelled
        is none."""
        status = self.status
        if status in (None, 0):
            return
        if self.was_cancelled and status in INTERRUPTED:
            return
        raise error_of(status, self.notes, self._name)


class Run:
    """A run's folder, and the run itself while it goes on.

    What is read of it (metrics, config, weights) is read anew each time.
    """

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self._process = None  # where it was started here
        self._loggers = Loggers((), self.folder)

    # What it is.

    @property
    def name(self):
        return self.folder.name

    @property
    def config(self):
        """The resolved config, with all defaults, as a dict."""
        return tomllib.loads(self._text("config.toml"))

    @property
    def about(self):
        """run.json: command, versions, host, commit, ... as a dict."""
        return json.loads(self._text("run.json"))

    @property
    def is_over(self):
        if self._process is not None:
            return self._process.status is not None
        return (self.folder / "done").exists() or not records.is_held(
            self.folder)

    @property
    def state(self):
        """"running", "done", "stopped" (with a checkpoint), "failed",
        "diverged", or "killed"."""
        return self.last_state if self.is_over else "running"

    @property
    def last_state(self):
        """The same of a run that is known to be over."""
        if (self.folder / "done").exists():
            return "done"
        try:
            said = json.loads(self._text("status.json")).get("state")
        except (SluiceError, ValueError):
            said = "failed"  # before its first turn
        return "killed" if said == "running" else said

    @property
    def output(self):
        """What the program has printed; of a run that was started here."""
        return self._process.output if self._process else ""

    def _text(self, file):
        try:
            return (self.folder / file).read_text(encoding="utf-8")
        except OSError as error:
            raise SluiceError(f"{self.folder / file}: {error.strerror}"
                              ) from None

    # What it has measured.

    def records(self):
        """All lines of metrics.jsonl, as dicts."""
        return records.Reader(self.folder).read()

    @property
    def metrics(self):
        """All records, a row each; `kind` says what a row is."""
        return frames.frame_of(self.records())

    @property
    def evaluations(self):
        """A row per evaluation: turn, epoch, loss, accuracy, ... of the test
        split; those of other splits have a prefix."""
        return frames.frame_of(self.records(), "evaluation")

    @property
    def turns(self):
        """A row per update of a block that was logged."""
        return frames.frame_of(self.records(), "train")

    def curves(self, measure="loss"):
        """Indexed by turn: columns "block 1", ... of training, and "test",
        "validation", "training" of evaluations."""
        return frames.curves_of(self.turns, self.evaluations, measure)

    @property
    def result(self):
        """The last evaluation, as a dict; empty when there was none."""
        found = [r for r in self.records() if r.get("kind") == "evaluation"]
        return found[-1] if found else {}

    # How it goes on.

    def follow(self):
        """Yields its records as they come, from the first one, until it is over.
        Raises SluiceError at the end of a run that was started here and
        failed."""
        yield from records.follow(self.folder, lambda: self.is_over)
        self.check()

    def __iter__(self):
        return self.follow()

    def wait(self, timeout=None):
        """Waits until it is over, and returns it. Raises SluiceError when it
        failed, TimeoutError after `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self.is_over:
            if end is not None and time.monotonic() > end:
                raise TimeoutError(f"{self.folder}: runs on after {timeout} s")
            time.sleep(records.PERIOD / 2)
        self.check()
        return self

    def check(self):
        """Raises the error that ended it, if one did and it was started here."""
        if self._process is None or self._process.status is None:
            return
        self._loggers.finish()
        self._process.check()

    def cancel(self, now=False):
        """Ends it as Ctrl-C does: after the turns that its blocks have been
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

    def resume(self, *, logger=None, wait=True, on_turn=None, on_evaluation=None,
               on_event=None, **overrides):
        """Continues it from its last checkpoint; overrides as those of run()."""
        return self._start(["run", "--resume", self.folder,
                            *configs.overrides(overrides)], names_of(logger),
                           Callbacks(on_turn, on_evaluation, on_event), wait)

    def _start(self, arguments, loggers, callbacks, wait):
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

    def _begun_time(self):
        try:  # of what it writes after it has read its config
            return (self.folder / "run.json").stat().st_mtime_ns
        except OSError:
            return None

    def _wait_until_begun(self, before):
        """What it was given, which may be a temporary file, has been read by
        then; and what is wrong with it is raised."""
        while not self.is_over:
            if self._begun_time() not in (None, before):
                return
            time.sleep(records.PERIOD / 4)
        self.check()

    def _go_on(self, callbacks, wait):
        if wait:
            self._tell(callbacks)
        elif callbacks.are_any():
            threading.Thread(target=self._tell_aside, args=(callbacks,),
                             daemon=True).start()
        return self

    def _tell(self, callbacks):
        if not callbacks.are_any():
            self.wait()
            return
        for record in self.follow():
            if callbacks.tell(record) is False:
                self._process.signal()

    def _tell_aside(self, callbacks):
        try:
            self._tell(callbacks)
        except SluiceError:
            pass  # wait() raises it
        except Exception as error:  # a callback's
            self._process.signal()
            warnings.warn(f"{self.folder}: was ended by a callback: {error!r}",
                          stacklevel=2)

    # What it has learned.

    def export(self, file=None, checkpoint=None):
        """Writes the whole model as a safetensors file, and returns its path.
        checkpoint: "best", "last" or a turn; by default the best, or else the
        last."""
        file = self.folder / "model.safetensors" if file is None else file
        call("export", self.folder, "--out", file,
             *([] if checkpoint is None else ["--checkpoint", checkpoint]))
        return pathlib.Path(file)

    def _exported(self, checkpoint):
        with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
            return File(self.export(pathlib.Path(folder) / "model.safetensors",
                                    checkpoint))

    def weights(self, checkpoint=None):
        """Name -> numpy array, named as in the uncut model."""
        return self._exported(checkpoint).numpy()

    def model(self, checkpoint=None):
        """The model as an nn.Module in evaluation mode, with these weights:
        see load_model()."""
        from sluice.models import model_of

        return model_of(self._exported(checkpoint))

    def evaluate(self, split="test", samples=256):
        """What `sluice eval` makes of its best checkpoint, or else its last:
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

    def sample(self, prompt="\n", tokens=200, *, temperature=1.0, seed=0,
               text=None, checkpoint=None):
        """Text from a language model: the prompt, and so many bytes more.

        temperature: 0 takes the most probable byte each time. text: the file
        that it was trained on, where it isn't found.
        """
        from sluice import sampling

        sampling.check_bytes(self.config["data"])
        file = sampling.text_file(self.config["data"]) if text is None else text
        return sampling.sample(self.model(checkpoint), sampling.tokens_of(file),
                               prompt, tokens, temperature, seed)

    # How it looks.

    def _facts(self):
        facts = {"run": str(self.folder), "state": self.state}
        try:
            result = self.result
        except SluiceError as error:
            return facts | {"metrics": str(error)}
        if result:
            facts |= {"turns": result["turn"],
                      "test loss": f"{result['loss']:.4f}"}
        if "accuracy" in result:  # not where targets are numbers
            facts["test accuracy"] = f"{100 * result['accuracy']:.2f} %"
        return facts

    def __repr__(self):
        facts = self._facts()
        folder = facts.pop("run")
        return f"<Run {folder}: " + ", ".join(
            text if key == "state" else f"{key} {text}"
            for key, text in facts.items()) + ">"

    def _repr_html_(self):
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(key)}</th>"
            f"<td style='text-align:left'>{html.escape(str(text))}</td></tr>"
            for key, text in self._facts().items())
        return f"<table>{rows}</table>"


class Callbacks:
    """What is called with a record: on_turn with those of kind "train",
    on_evaluation with evaluations, on_event with all."""

    def __init__(self, on_turn, on_evaluation, on_event):
        self._of_kind = {"train": on_turn, "evaluation": on_evaluation}
        self._of_all = on_event

    def are_any(self):
        return self._of_all is not None or any(
            f is not None for f in self._of_kind.values())

    def tell(self, record):
        """False when a callback wants the run to end."""
        wanted = [self._of_kind.get(record.get("kind")), self._of_all]
        answers = [callback(record) for callback in wanted if callback]
        return not any(answer is False for answer in answers)


def new_folder(name):
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


def run(config, *, folder=None, overwrite=False, wait=True, logger=None,
        on_turn=None, on_evaluation=None, on_event=None, **overrides):
    """Trains a network as a config describes it.

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
        if own:
            folder = new_folder(configs.name_of(file, settings_of(overrides)))
        arguments = ["run", file, *configs.overrides(overrides), "--dir", folder]
        if overwrite:
            arguments.append("--overwrite")
        try:
            return Run(folder)._start(arguments, loggers, callbacks, wait)
        finally:
            if own:
                _remove_empty(folder)


def settings_of(overrides):
    return {key.replace("__", "."): value for key, value in overrides.items()}


def _remove_empty(folder):
    try:
        os.rmdir(folder)
    except OSError:
        pass  # a run is there
