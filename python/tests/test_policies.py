"""Policies of boundaries written in Python. Their oracles are the policies of
Sluice that do the same."""
import functools

import pytest

import sluice

torch = pytest.importorskip("torch")
stored = pytest.importorskip("safetensors.torch")
nn = torch.nn

try:
    from sluice.extension import native
    native()
except sluice.SluiceError as error:
    pytest.skip(str(error), allow_module_level=True)

ENGINES = ["virtual", "threads", "processes"]
TURNS = 12


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def batches():
    """Of four classes, whose first features tell them."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(TURNS, 8, 16, generator=generator)
    return x, x[:, :, :4].argmax(-1)


@functools.cache
def layers():
    """Copies of these begin with the same weights in each network."""
    with torch.random.fork_rng():
        torch.manual_seed(2)
        return [nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 24), nn.ReLU(),
                nn.Linear(24, 4)]


def network(policy, engine="virtual", **more):
    return sluice.Network(layers(), torch.zeros(1, 16), cuts=[2, 4],
                          boundaries=policy, optimizer="sgd, lr = 0.1",
                          engine=engine, threads=1, **{"seed": 3, **more})


def trained(net):
    """The losses of all blocks, and the tensors at the end."""
    x, y = batches()
    losses = [net.step(*batch).losses for batch in zip(x, y)]
    net.drain()
    return losses, net.weights()


def same(some, others):
    return some.keys() == others.keys() and all(
        torch.equal(some[name], others[name]) for name in some)


class Above:
    """The gradient from above, times a number."""

    def __init__(self, site, scale=1.0):
        self.scale = scale

    def gradient(self, features, labels, from_above):
        return from_above if self.scale == 1 else self.scale * from_above


class LateAbove(Above):
    delay = 1


class Classifier(nn.Module):
    """What the head `linear` of local_loss does to flat features."""

    def __init__(self, site, dropout=0.0):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(*site.features, site.classes)

    def loss(self, features, labels):
        logits = self.classifier(self.dropout(features))
        return nn.functional.cross_entropy(logits, labels), logits


class Projected(nn.Module):
    """A gradient of its own, of a fixed draw and a count that is saved."""

    from_above = False

    def __init__(self, site):
        super().__init__()
        self.register_buffer(
            "matrix", torch.randn(site.classes, *site.features))
        self.register_buffer("turns", torch.tensor(0))

    def gradient(self, features, labels):
        self.turns += 1
        return self.matrix[labels] / len(labels)


@pytest.mark.parametrize("written, built_in", [
    (Above, "backprop"), (LateAbove, "delayed_gradient")])
def test_what_hands_the_gradient_on_has_the_bits_of_ours(written, built_in):
    with network(built_in) as net:
        losses, weights = trained(net)
    for engine in ENGINES:
        with network(written, engine) as net:
            found = trained(net)
        # Blocks below the last one have no loss: NaN.
        assert [turn[-1] for turn in found[0]] == [
            turn[-1] for turn in losses], engine
        assert same(found[1], weights), engine
    with network(functools.partial(written, scale=0.5)) as net:
        assert not same(trained(net)[1], weights)


def test_a_loss_in_python_has_the_bits_of_local_loss(tmp_path):
    file = tmp_path / "begin.safetensors"
    with network("local_loss") as net:
        stored.save_file(net.weights(), file)
        net.load(file)
        losses, weights = trained(net)
    assert not same(weights, stored.load_file(file))
    for engine in ENGINES:
        with network(Classifier, engine, initial_weights=file) as net:
            found = trained(net)
        assert found[0] == losses, engine
        assert same(found[1], weights), engine
    # A change that the equality would see: weights of its own.
    with network(Classifier) as net:
        assert not same(trained(net)[1], weights)


@pytest.mark.parametrize("policy", [
    Projected, functools.partial(Classifier, dropout=0.5)])
def test_draws_are_the_same_on_every_engine(policy):
    found = []
    for engine in ENGINES:
        with network(policy, engine) as net:
            found.append(trained(net)[1])
    assert same(found[0], found[1]) and same(found[0], found[2])
    with network(policy, seed=4) as net:
        assert not same(trained(net)[1], found[0])


def test_dropouts_of_a_policy_draw():
    weights = []
    for dropout in (0.0, 0.5):
        with network(functools.partial(Classifier, dropout=dropout)) as net:
            weights.append(trained(net)[1])
    assert not same(*weights)


def test_every_boundary_has_its_own_policy():
    with network([Projected, {"policy": Above, "codec": "bf16"}]) as net:
        _, weights = trained(net)
        assert weights["heads.1.turns"] == TURNS
        assert "heads.3.turns" not in weights
    with network([Projected, Above]) as net:
        assert not same(trained(net)[1], weights)  # the codec's


def test_a_run_says_by_what_it_was_trained(tmp_path):
    policy = functools.partial(Above, scale=0.5)
    with network([policy, Above], run=tmp_path / "run") as net:
        trained(net)
        net.finish()
    boundaries = sluice.load(tmp_path / "run").config["boundary"]
    assert boundaries["1"]["policy"] == "Above"
    assert boundaries["1"]["made_by"].endswith("test_policies.Above(scale=0.5)")
    assert boundaries["2"]["policy"] == "Above-2"
    assert boundaries["2"]["made_by"].endswith("test_policies.Above")


def test_a_checkpoint_has_what_a_policy_holds(tmp_path):
    with network(Projected) as net:
        trained(net)
        saved = net.save(tmp_path)
        trained(net)
        weights = net.weights()
        assert weights["heads.1.turns"] == 2 * TURNS
        net.load(saved)
        assert net.weights()["heads.1.turns"] == TURNS
        trained(net)
        assert same(net.weights(), weights)


class Both(Classifier):
    def gradient(self, features, labels, from_above):
        return from_above


class LateLoss(Classifier):
    delay = 1


class Detached(Classifier):
    def loss(self, features, labels):
        return super().loss(features, labels)[0].detach()


class Elsewhere(Classifier):
    def loss(self, features, labels):
        return self.classifier.weight.sum()


class Rows(Classifier):
    def loss(self, features, labels):
        return features.sum(1)


class Narrow(Above):
    def gradient(self, features, labels, from_above):
        return from_above[:, :3]


class Fails(Above):
    def gradient(self, features, labels, from_above):
        raise ValueError("not today")


class Writes(Above):
    def gradient(self, features, labels, from_above):
        return from_above.mul_(2)


@pytest.mark.parametrize("policy, text", [
    (nn.Identity, "has none of loss"), (Both, "has both of loss"),
    (LateLoss, "LateLoss.delay is 1"), (int, "int")])
def test_what_is_no_policy_is_refused_in_a_line(policy, text):
    with pytest.raises(sluice.SluiceError, match=text) as caught:
        network(policy)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("policy, text", [
    (Detached, "has no graph"), (Elsewhere, "depend on the features"),
    (Rows, r"its loss has sizes \[8\]"),
    (Narrow, r"gives Float \[8, 3\] for features of Float \[8, "),
    (Fails, r"ValueError: not today \(test_policies.py:\d+\)"),
    (Writes, "Writes|policy")])
@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_policy_does_wrong_is_told(policy, text, engine):
    if engine == "processes" and policy is not Fails:
        pytest.skip("as in threads; a process starts in a second")
    with network(policy, engine) as net:
        with pytest.raises(sluice.SluiceError, match=text) as caught:
            trained(net)
        assert "block 1: " in str(caught.value) or (
            "block 2: " in str(caught.value))
    if policy is Fails and engine != "processes":
        assert isinstance(caught.value.__cause__, ValueError)


def test_a_policy_of_processes_must_be_importable():
    def local(site):
        return Above(site)

    with network(local) as net:
        trained(net)
    with pytest.raises(sluice.SluiceError, match="layers and policies"):
        network(local, "processes")


def test_gradients_that_come_apart_are_refused():
    """Of the two losses above it the lowest block takes one: which gradient
    would the policy between be given?"""
    linears = [functools.partial(nn.Linear, width, width) for width in [4] * 4]
    boundaries = ["backprop, reach = 2", Above, "local_loss, reach = 1"]
    with pytest.raises(sluice.SluiceError, match="takes one gradient"):
        with sluice.Network(linears, torch.zeros(1, 4), cuts=[1, 2, 3],
                            boundaries=boundaries) as net:
            net.step(torch.zeros(2, 4), torch.tensor([0, 1])).loss()
