"""Replicas of a Network, and policies of theirs written in Python, whose oracles
are the policies of Sluice that do the same."""
import functools
import pathlib
import re

import pytest

import sluice

torch = pytest.importorskip("torch")
nn = torch.nn

try:
    from sluice.extension import native
    native()
except sluice.SluiceError as error:
    pytest.skip(str(error), allow_module_level=True)

ENGINES = ["virtual", "threads", "processes"]
TURNS = 7


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@functools.cache
def layers():
    """Copies of these begin with the same weights in each network."""
    with torch.random.fork_rng():
        torch.manual_seed(2)
        return [nn.Linear(16, 12), nn.BatchNorm1d(12), nn.ReLU(),
                nn.Linear(12, 4)]


def network(replicas, engine="virtual", **more):
    return sluice.Network(layers(), torch.zeros(1, 16), cuts=[3],
                          optimizer="sgd, lr = 0.1, momentum = 0.9",
                          engine=engine, replicas=replicas, threads=1,
                          **{"seed": 3, **more})


def batches(replicas, turns=TURNS):
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(turns, replicas * 8, 16, generator=generator)
    return x, x[:, :, :4].argmax(-1)


def trained(net):
    """The losses at the top, and the tensors at the end."""
    losses = [net.step(*batch).loss() for batch in zip(*batches(net.replicas))]
    return losses, net.weights()


def same(some, others):
    return some.keys() == others.keys() and all(
        torch.equal(some[name], others[name]) for name in some)


class Mean:
    """What `average` does, and with another `part` something else."""

    def __init__(self, site, part=1.0):
        self.part = part

    def combine(self, mine, mixture):
        if self.part == 1:
            return mixture.mean
        return [w + self.part * (mean - w)
                for w, mean in zip(mine, mixture.mean)]


class Elastic:
    """What `elastic` does."""

    def __init__(self, site, beta=0.9):
        self.beta = beta
        self.centre = {name: w.clone() for name, w in site.weights.items()}

    def begin(self, weights):
        for centre, weight in zip(self.centre.values(), weights):
            centre.copy_(weight)

    def combine(self, mine, mixture):
        pulls = []
        for centre, w, mean in zip(self.centre.values(), mine, mixture.mean):
            pulls.append((centre - w) * (self.beta / mixture.parts))
            centre.sub_((centre - mean) * self.beta)
        return pulls

    def consensus(self, mean):
        return list(self.centre.values())

    def state(self):
        return self.centre


class Peers:
    """What `gossip` does after an update, and with `scale` something else."""

    def __init__(self, site, scale=1.0):
        self.scale = scale

    def offer(self, mine):
        return [self.scale * w for w in mine]

    def combine(self, mine, mixture):
        assert all(torch.equal(w, self.scale * own) for w, own in zip(
            mixture.published[mixture.own], mine)) or self.scale != 1
        first, *others = mixture.published
        mixed = []
        for i, w in enumerate(first):
            apart = w - others[0][i]
            for each in others[1:]:
                apart += w - each[i]
            mixed.append(w - apart / mixture.parts)
        return mixed


@pytest.mark.parametrize("written, changed, built_in", [
    ({"policy": Mean, "count": 3, "every": 2},
     functools.partial(Mean, part=0.5),
     {"policy": "average", "count": 3, "every": 2}),
    ({"policy": Elastic, "count": 2, "every": 2, "mix": "before"},
     functools.partial(Elastic, beta=0.5),
     {"policy": "elastic", "count": 2, "every": 2}),
    ({"policy": Peers, "count": 4, "graph": "ring"},
     functools.partial(Peers, scale=0.9),
     {"policy": "gossip", "count": 4, "mix": "after"})])
def test_a_policy_in_python_has_the_bits_of_ours(written, changed, built_in):
    with network(built_in) as net:
        losses, weights = trained(net)
    for engine in ENGINES:
        with network(written, engine) as net:
            found = trained(net)
        assert found[0] == losses, engine
        assert same(found[1], weights), engine
    with network({**written, "policy": changed}) as net:
        assert not same(trained(net)[1], weights)


@pytest.mark.parametrize("replicas", [
    2, {"count": 2, "policy": "average", "every": 2, "outer_momentum": 0.9},
    {"count": 3, "policy": "server"}, {"count": [4, 1]}])
def test_replicas_have_the_same_bits_on_every_engine(replicas):
    found = []
    for engine in ENGINES:
        with network(replicas, engine) as net:
            found.append(trained(net))
    assert found[0][0] == found[1][0] == found[2][0]
    assert same(found[0][1], found[1][1]) and same(found[0][1], found[2][1])


def test_summed_gradients_are_those_of_accumulated_turns():
    plain = [nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 4)]
    weights = []
    for replicas in (2, 1):
        with sluice.Network(
                plain, torch.zeros(1, 16), cuts=[2], replicas=replicas,
                optimizer="sgd, lr = 0.1", threads=1, seed=3,
                **({} if replicas == 2 else {"accumulate": {
                    "batches": 2, "rule": "mean"}})) as net:
            for x, y in zip(*batches(2)):
                parts = x.chunk(2) if replicas == 1 else [x]
                for part, labels in zip(parts, y.chunk(len(parts))):
                    net.step(part, labels)
            weights.append(net.weights())
    assert same(*weights)


def test_a_step_tells_of_each_replica():
    told = []
    with network(2, on_turn=told.append) as net:
        assert net.replicas == 2
        step = net.step(*(each[0] for each in batches(2)))
        ones = [step.record(2, replica)["loss"] for replica in (1, 2)]
        assert ones[0] != ones[1]
        assert step.loss() == sum(ones) / 2 == step.losses[-1]
        with pytest.raises(sluice.SluiceError, match="replica 3: .* 1 to 2"):
            step.record(2, 3)
        net.drain()
    assert [(each["block"], each["replica"]) for each in told] == [
        (1, 1), (1, 2), (2, 1), (2, 2)]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_checkpoint_has_what_a_policy_keeps(tmp_path, engine):
    replicas = {"policy": Elastic, "count": 2, "every": 2, "mix": "before"}
    with network(replicas, engine) as net:
        trained(net)
        saved = net.save(tmp_path)
        trained(net)
        weights = net.weights()
        net.load(saved)
        trained(net)
        assert same(net.weights(), weights)
    with network({**replicas, "count": 3}, engine) as net:
        with pytest.raises(sluice.SluiceError, match="count = 2, and here it is 3"):
            net.load(saved)


def test_a_run_says_by_what_its_replicas_were_trained(tmp_path):
    with network({"policy": Mean, "count": 2}, run=tmp_path / "run") as net:
        trained(net)
        x, y = batches(1)
        evaluation = net.evaluate(x[0], y[0])
        net.record(evaluation)
        net.finish()
        assert net.evaluate(x[0], y[0]).loss == evaluation.loss
    run = sluice.load(tmp_path / "run")
    replicas = run.config["replicas"]
    assert replicas["policy"] == "Mean"
    assert replicas["made_by"].endswith("test_replicas.Mean")


def test_a_run_goes_on_with_the_policy_that_trained_it(tmp_path):
    options = {"run": tmp_path / "run"}
    with network({"policy": Mean, "count": 2}, **options) as net:
        trained(net)
        net.save()
        weights = net.weights()
    with network({"policy": Mean, "count": 2}, resume=True, **options) as net:
        assert net.turns == TURNS
        assert same(net.weights(), weights)
    for other in (Elastic, "average"):
        with pytest.raises(sluice.SluiceError,
                           match="trained with policy = 'Mean', and go on"):
            network({"policy": other, "count": 2}, resume=True, **options)


class Raises(Mean):
    def combine(self, mine, mixture):
        raise ValueError("no such mean")


class Short(Mean):
    def combine(self, mine, mixture):
        return mixture.mean[:1]


class Flat(Mean):
    def combine(self, mine, mixture):
        return [mean.flatten() for mean in mixture.mean]


class Double(Mean):
    def offer(self, mine):
        return [w.double() for w in mine]


class Forgets(Elastic):
    def state(self):
        return {name: w.clone() for name, w in self.centre.items()}


class Listed(Elastic):
    def state(self):
        return list(self.centre.values())


@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_policy_raises_is_said_in_a_line(engine):
    with pytest.raises(sluice.SluiceError) as info:
        with network({"policy": Raises, "count": 2}, engine) as net:
            trained(net)
    assert re.fullmatch(
        r"block \d of replica \d: replica policy 'Raises': ValueError: no such "
        r"mean \(test_replicas.py:\d+\)", str(info.value)), info.value
    if engine != "processes":
        assert isinstance(info.value.__cause__, ValueError)


@pytest.mark.parametrize("policy, message", [
    (Short, "'Short': its combine gives 1 tensors for \\d weights"),
    (Flat, r"'Flat': its combine gives Float \[\d+\] for weights of Float "
           r"\[\d+, \d+\]"),
    (Double, r"'Double': its offer gives Double .* for weights of Float"),
    (Forgets, "'Forgets': its state gives other tensors each time"),
    (Listed, "'Listed': its state gives a list"),
    (object, "object.* no combine|takes no arguments")])
def test_what_is_wrong_with_a_policy_is_said_in_a_line(policy, message):
    with pytest.raises(sluice.SluiceError) as info:
        with network({"policy": policy, "count": 2}, "threads") as net:
            trained(net)
    assert re.search(message, str(info.value)), info.value
    assert "\n" not in str(info.value)


@pytest.mark.parametrize("replicas, message", [
    ("many", "replicas: 'many': expected a number, or a dict"),
    (0, "replicas.count"),
    ({"policy": "mean"}, "unknown replica policy 'mean'"),
    ({"count": 2, "policy": Mean, "compress": "top_k"}, "compress"),
    ({"count": 2, "policy": Mean, "graph": "star"}, "graph"),
    ({"count": 2, "backup": 1}, "clocks of their own"),
    ({"count": 4, "deal": "arrival"}, "clocks of their own")])
def test_what_is_wrong_with_replicas_is_said_in_a_line(replicas, message):
    with pytest.raises(sluice.SluiceError, match=message) as info:
        network(replicas)
    assert "\n" not in str(info.value)


@pytest.mark.parametrize("engine", ["virtual", "threads"])
def test_a_policy_that_calls_its_network_is_refused(engine):
    nets = []

    class Calls(Mean):
        def combine(self, mine, mixture):
            return super().combine(mine, mixture) if not nets else (
                nets[0].weights())

    with pytest.raises(sluice.SluiceError, match="in the middle of a step"):
        with network({"count": 2, "policy": Calls}, engine=engine) as net:
            nets.append(net)
            trained(net)


def test_what_a_policy_begins_with_is_its_own():
    first = []

    class Keeps(Mean):
        def begin(self, weights):
            first.append((weights, [w.clone() for w in weights]))

    with network({"count": 2, "policy": Keeps}) as net:
        losses, _ = trained(net)
    assert losses[-1] != losses[0]
    assert first
    for weights, copies in first:
        assert all(torch.equal(w, c) for w, c in zip(weights, copies))


def test_a_batch_is_dealt_out_equally():
    with network(3) as net:
        with pytest.raises(sluice.SluiceError,
                           match="8 samples can't be dealt out equally to 3"):
            net.step(*(each[0] for each in batches(1)))
        net.step(*(each[0] for each in batches(3)))
        assert net.turns == 1
    with pytest.raises(sluice.SluiceError, match="this Network is closed"):
        net.step(*(each[0] for each in batches(3)))


def test_the_page_names_what_a_site_and_a_mixture_have():
    page = (pathlib.Path(__file__).parents[2] /
            "docs/howto/python-policies.md").read_text()
    from sluice.replicas import Mixture, ReplicaSite
    for name in (*ReplicaSite._fields, *Mixture._fields):
        assert f"`{name}`" in page, name
