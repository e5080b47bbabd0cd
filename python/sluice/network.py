"""Networks of nn.Modules, cut into blocks, with a training loop of your own."""
from __future__ import annotations

import atexit
import collections
import contextlib
import operator
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

from sluice import config as configs
from sluice import network_worker, replicas as replica_policies
from sluice.errors import SluiceError
from sluice.extension import native
from sluice.factories import layer_functions, made
from sluice.policies import Policies, functions

if TYPE_CHECKING:
    import torch
    from torch import nn

Figures = dict[str, Any]  # of a block in a turn, or of an evaluation
_open: weakref.WeakSet[Network] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Blocks in threads need Python to end."""
    for network in list(_open):
        network.close()


@contextlib.contextmanager
def drawn_by(seed: object) -> Iterator[None]:
    """First weights follow from the seed, where one is given, and torch's
    generator stays as it was; else they follow from torch's generator."""
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        yield  # none, or one that the program refuses
        return
    import torch
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def choice(said: object, name: str) -> str:
    """A policy or an optimizer as a text: its name, then its options."""
    if isinstance(said, str):
        return said
    if not isinstance(said, dict) or not isinstance(said.get(name), str):
        raise SluiceError(f"{said!r}: expected a text such as \"adam, lr = "
                          f"1e-3\", or a dict with the key {name!r}")
    options = configs.nested({k: v for k, v in said.items() if k != name})
    return ", ".join([said[name], *(
        f"{configs.toml_key(key)} = {configs.toml_value(value)}"
        for key, value in options.items())])


def as_list(layers: Iterable[Any]) -> list[Any]:
    if not isinstance(layers, Iterable):
        raise SluiceError(
            f"layers: {type(layers).__name__} is one module, and a network is "
            "cut between layers: give a list, such as list(model.children()), "
            "or an nn.Sequential")
    return list(layers)


class Step:
    """A turn that Network.step() began.

        step = net.step(images, labels)
        print(step.turn, step.losses)

    A figure waits until the turn is done. It is NaN where a block has none in
    this turn.
    """

    def __init__(self, turn: Any, blocks: int, replicas: int = 1) -> None:
        self._turn = turn
        self._blocks = blocks
        self._replicas = replicas

    @property
    def turn(self) -> int:
        """Number of the turn, from 0."""
        return self._turn.turn

    def record(self, block: int | None = None, replica: int = 1) -> Figures:
        """All figures of a block (from 1; by default the last) in a replica
        (from 1) as a dict."""
        block = self._blocks if block is None else block
        if not 1 <= block <= self._blocks:
            raise SluiceError(
                f"block {block}: the network has blocks 1 to {self._blocks}")
        if not 1 <= replica <= self._replicas:
            raise SluiceError(f"replica {replica}: the network has replicas 1 "
                              f"to {self._replicas}")
        return self._turn.record(block, replica)

    def _mean(self, figure: str, block: int | None = None) -> float | None:
        found = [value for replica in range(1, self._replicas + 1)
                 if (value := self.record(block, replica).get(figure))
                 is not None]
        return sum(found) / len(found) if found else None

    def loss(self, block: int | None = None) -> float:
        """Loss of a block (from 1; by default the last), the mean over its
        replicas."""
        mean = self._mean("loss", block)
        return float("nan") if mean is None else mean

    def accuracy(self, block: int | None = None) -> float:
        """Accuracy of a block (from 1; by default the last), the mean over its
        replicas."""
        mean = self._mean("accuracy", block)
        return float("nan") if mean is None else mean

    @property
    def losses(self) -> list[float | None]:
        """Losses of all blocks, bottom first; None for a block without a loss of
        its own, which learns from gradients alone, and in a turn in which it
        applied no batch."""
        return [self._mean("loss", block)
                for block in range(1, self._blocks + 1)]

    def __repr__(self) -> str:
        return f"<Step {self.turn} of {self._blocks} blocks>"


class Network:
    """A network of nn.Modules, cut into blocks with a policy at each boundary.

        net = sluice.Network(
            [partial(nn.Linear, 784, 256), nn.ReLU, partial(nn.Linear, 256, 10)],
            example=torch.zeros(1, 784), cuts=[2], boundaries="local_loss",
            optimizer="adam, lr = 1e-3", engine="threads", seed=1)
        for images, labels in loader:
            losses = net.step(images, labels).losses

    layers: from the input up, a function without arguments for each, which
        returns a new nn.Module: a class, functools.partial(nn.Linear, 64, 10).
        It is called several times; the weights are those of the first call. An
        nn.Module stands for copies of itself. With engine="processes" they are
        imported by worker processes: lambdas can't be.
    example: a batch like those of step(), float32 or int64 tokens.
    cuts: the layers, from 0, at which blocks begin, but for the first.
    boundaries: the policies of the boundaries, bottom first, or one for all,
        "local_loss, head = {name = 'predsim'}" or such a dict. A policy of
        your own is a function of a Site, such as a class; what it returns has a
        method loss(features, labels) or gradient(features, labels, from_above):
        docs/howto/python-networks.md.
    optimizer: "adam, lr = 1e-3" or such a dict; one for each block.
    engine: "virtual" (this thread), "threads" or "processes".
    replicas: copies of the network that train together: their number, or a dict
        of the keys of [replicas], {"count": 4, "policy": "average", "every":
        50}. A policy of your own is a function of a ReplicaSite, such as a
        class with a method combine(mine, mixture):
        docs/howto/python-policies.md.
    run: the folder of a run that is written, by default none. `overwrite`
        removes the one that is there, `resume` goes on with it: then the loop
        begins at `turns`.
    on_turn: called with the figures of each block (a dict) of each replica for
        each turn, when it is done. on_evaluation: with those that evaluate() returns.
    settings: all other keys of a config, as TOML or a dict; further arguments
        likewise: seed=1, schedule__name="cosine". A seed decides everything
        that is drawn, the first weights of new modules too. Without one these
        follow from torch's generator (torch.manual_seed).

    Raises SluiceError; what a module has raised is its __cause__. Worker
    processes end with the thread that has made the Network.
    """

    def __init__(self, layers: Iterable[nn.Module | Callable[[], nn.Module]],
                 example: torch.Tensor, *, cuts: Iterable[int] = (),
                 boundaries: Any = (), optimizer: str | dict[str, Any] = "",
                 engine: str = "virtual",
                 replicas: int | dict[str, Any] | None = None,
                 run: str | os.PathLike[str] | None = None,
                 overwrite: bool = False, resume: bool = False,
                 on_turn: Callable[[Figures], object] | None = None,
                 on_evaluation: Callable[[Figures], object] | None = None,
                 settings: str | dict[str, Any] = "", **overrides: Any) -> None:
        network_worker.refuse_in_worker()
        self._factories = as_list(layers)
        self._on_turn = on_turn
        self._on_evaluation = on_evaluation
        self._pending: collections.deque[Step] = collections.deque()
        self._worker: network_worker.Command | None = None
        if isinstance(boundaries, (str, dict)) or callable(boundaries):
            boundaries = [boundaries]
        policies = Policies()
        boundaries = [policies.choice(each) for each in boundaries]
        settings = configs.as_dict(settings)
        if "engine" in settings:
            raise SluiceError("settings: the engine is an argument of Network, "
                              "engine=\"threads\"")
        own_replicas = Policies()
        if replicas is not None:
            if "replicas" in settings:
                raise SluiceError("settings: replicas are an argument of "
                                  "Network already: give one of them")
            settings = {**settings, "replicas": replica_policies.table(
                replicas, own_replicas)}
        seed = overrides.get("seed", settings.get("seed"))
        said: dict[str, Any] = {
            "layers": layer_functions(self._factories),
            "policies": functions(policies.rows),
            "replica_policies": replica_policies.functions(own_replicas.rows),
            "example": example,
            "cuts": [operator.index(cut) for cut in cuts],
            "boundaries": [choice(each, "policy") for each in boundaries],
            "optimizer": choice(optimizer, "name"),
            "settings": configs.to_toml(settings),
            "overrides": configs.overrides({"engine": engine, **overrides}),
            "folder": "" if run is None else os.fspath(run),
            "overwrite": overwrite, "resume": resume, "worker": []}
        module = native()
        if engine == "processes":
            self._worker = network_worker.Command(
                self._factories, policies.rows, own_replicas.rows, example)
            said["worker"] = self._worker.arguments
        try:
            with drawn_by(configs.plain(seed)):
                self._network = module.Network(said)
        except BaseException:
            if self._worker is not None:
                self._worker.close()
            raise
        self._blocks: int = self._network.blocks
        self._replicas: int = self._network.replicas
        _open.add(self)

    def step(self, inputs: torch.Tensor, labels: torch.Tensor) -> Step:
        """One turn of every block: forwards this batch, applies the one that is
        due. Both are copied. Replicas get equal parts of the batch, in order.
        Under "threads" and "processes" it returns while blocks still work.
        Returns the Step."""
        step = Step(self._network.step(inputs, labels), self._blocks,
                    self._replicas)
        if self._on_turn is not None:
            self._pending.append(step)
            # Blocks are at most four turns each ahead of the slowest.
            self._tell(4 * self._blocks)
        return step

    def _tell(self, ahead: int = 0) -> None:
        while self._on_turn is not None and len(self._pending) > ahead:
            step = self._pending.popleft()
            for block in range(1, self._blocks + 1):
                self._on_turn(step.record(block))
                for replica in range(2, self._replicas + 1):
                    if figures := step.record(block, replica):
                        self._on_turn(figures)

    def drain(self) -> None:
        """Applies the batches in flight; training can go on."""
        self._tell()
        self._network.drain()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Logits of the whole network in evaluation mode."""
        return self._network.forward(inputs)

    __call__ = forward

    def evaluate(self, inputs: torch.Tensor, labels: torch.Tensor) -> Any:
        """Loss and accuracy of the whole network in evaluation mode.

            print(net.evaluate(images, labels).accuracy)

        The attributes are loss, accuracy and labels (how many).
        """
        self._tell()
        evaluation = self._network.evaluate(inputs, labels)
        if self._on_evaluation is not None:
            self._on_evaluation({
                "turn": self.turns, "loss": evaluation.loss,
                "accuracy": evaluation.accuracy, "labels": evaluation.labels})
        return evaluation

    def record(self, test: Any, validation: Any = None) -> None:
        """Writes evaluations into the run: one for the results, and one that
        chooses the best checkpoint.

            net.record(net.evaluate(test_images, test_labels))
        """
        self._network.record(test, validation)

    def weights(self) -> dict[str, torch.Tensor]:
        """Copies of all tensors, named as in checkpoints: "layers.0.weight"."""
        return self._network.weights()

    def modules(self, into: Sequence[nn.Module] | None = None
                ) -> list[nn.Module]:
        """New modules of the factories with the present weights, in evaluation
        mode; or the modules `into`, one for each layer, with these weights."""
        import torch
        modules = ([made(factory) for factory in self._factories]
                   if into is None else list(into))
        if len(modules) != len(self._factories):
            raise SluiceError(f"modules(): {len(modules)} modules for "
                              f"{len(self._factories)} layers")
        weights = self.weights()
        with torch.no_grad():
            for i, module in enumerate(modules):
                persistent = module.state_dict().keys()
                for name, tensor in (*module.named_parameters(),
                                     *module.named_buffers()):
                    if name in persistent:
                        tensor.copy_(weights[f"layers.{i}.{name}"])
                module.eval()
        return modules

    def state_dict(self) -> dict[str, Any]:
        """The state_dict of nn.Sequential(*net.modules()).

            torch.save(net.state_dict(), "mine.pt")
        """
        from torch import nn
        return nn.Sequential(*self.modules()).state_dict()

    def save(self, folder: str | os.PathLike[str] = "") -> str:
        """Saves a checkpoint, batches in flight included; returns its folder,
        <folder>/turn-000120. Without `folder` it is the run's."""
        return self._network.save(os.fspath(folder))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Goes on from such a checkpoint, or from turn 0 with the weights of a
        safetensors file."""
        self._tell()
        self._network.load(os.fspath(path))

    def finish(self) -> None:
        """Ends the blocks, and the run, which is complete then. forward(),
        evaluate() and weights() stay."""
        self._tell()
        self._network.finish()

    def close(self) -> None:
        """Ends the blocks, threads and processes."""
        self._network.close()
        if self._worker is not None:
            self._worker.close()
        _open.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def turns(self) -> int:
        """How many steps were taken, those before a resumed checkpoint too."""
        return self._network.turns

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self._blocks

    @property
    def replicas(self) -> int:
        """Number of replicas: a batch of step() is a multiple of it."""
        return self._replicas

    def __repr__(self) -> str:
        try:
            state = f"after {self.turns} turns"
        except SluiceError:
            state = "closed"
        return (f"<Network of {len(self._factories)} layers in {self._blocks} "
                f"blocks, {state}>")
