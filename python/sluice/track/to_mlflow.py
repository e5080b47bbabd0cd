"""MLflow (mlflow or mlflow-skinny). Without MLFLOW_TRACKING_URI it writes into
the folder mlruns, which newer versions want MLFLOW_ALLOW_FILE_STORE=true for."""
import os
import pathlib
import time

from sluice.errors import need
from sluice.track.figures import figures_of, flat

MOST = 500  # metrics of a call; MLflow takes up to 1000
LONGEST = 500  # characters of a parameter
PERIOD = 2  # s, between calls


class Tracker:
    def __init__(self, run, project):
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        tracking = need("mlflow.tracking", "sluice.track mlflow")
        self._entities = need("mlflow.entities", "sluice.track mlflow")
        uri = os.environ.get("MLFLOW_TRACKING_URI")
        self._client = tracking.MlflowClient(
            tracking_uri=uri or pathlib.Path("mlruns").absolute().as_uri())
        self._started = run.about.get("started", time.time())
        self._id = self._run_in(self._experiment(project or "sluice"), run)
        self._waiting = []
        self._told = time.monotonic()

    def _experiment(self, name):
        found = self._client.get_experiment_by_name(name)
        return found.experiment_id if found else (
            self._client.create_experiment(name))

    def _run_in(self, experiment, run):
        made = self._client.create_run(
            experiment, start_time=int(1000 * self._started),
            run_name=run.name, tags={"sluice.folder": str(run.folder),
                                     "sluice.build": run.about["build"]})
        parameters = [self._entities.Param(key, str(value)[:LONGEST])
                      for key, value in flat(run.config).items()]
        for i in range(0, len(parameters), 100):
            self._client.log_batch(made.info.run_id,
                                   params=parameters[i:i + 100])
        return made.info.run_id

    def tell(self, record):
        at = int(1000 * (self._started + record.get("time", 0)))
        self._waiting += [self._entities.Metric(name, value, at, record["turn"])
                          for name, value in figures_of(record).items()]
        late = time.monotonic() - self._told > PERIOD
        if len(self._waiting) >= MOST or (late and self._waiting):
            self._send()

    def _send(self):
        for i in range(0, len(self._waiting), MOST):
            self._client.log_batch(self._id, metrics=self._waiting[i:i + MOST])
        self._waiting = []
        self._told = time.monotonic()

    def end(self, state):
        self._send()
        self._client.set_tag(self._id, "sluice.state", state)
        if state == "running":
            return  # it is only this that ends
        status = {"done": "FINISHED", "stopped": "KILLED"}.get(state, "FAILED")
        self._client.set_terminated(self._id, status)
