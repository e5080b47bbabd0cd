"""Weights & Biases. WANDB_MODE=offline writes a folder for `wandb sync`."""
import re

from sluice.errors import need
from sluice.track.figures import figures_of


class Tracker:
    def __init__(self, run, project):
        wandb = need("wandb", "sluice.track wandb")
        self._run = wandb.init(
            project=project or "sluice", name=run.name, config=run.config,
            id=id_of(run), dir=str(run.folder),
            settings=wandb.Settings(console="off", disable_git=True,
                                    x_disable_stats=True))
        # Records of blocks that run beside each other aren't in the order of
        # their turns, as wandb's own steps would have to be.
        self._run.define_metric("turn")
        self._run.define_metric("*", step_metric="turn")

    def tell(self, record):
        figures = figures_of(record)
        if figures:
            self._run.log({"turn": record["turn"], **figures})

    def end(self, state):
        self._run.summary["state"] = state
        is_good = state in ("done", "stopped", "running")
        self._run.finish(exit_code=0 if is_good else 1)


def id_of(run):
    """Of a run, or of one that was continued: then it is told all anew."""
    about = run.about
    part = len(about.get("continued", ())) + 1
    return re.sub(r"[^A-Za-z0-9_-]", "-",
                  f"{run.name}-{about.get('started', 0):.0f}-{part}")
