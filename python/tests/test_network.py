"""Networks of nn.Modules. The oracle of their bits is a C++ program that trains
the same net (tests/python/network_oracle.cpp)."""
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import pytest

import sluice

torch = pytest.importorskip("torch")
stored = pytest.importorskip("safetensors.torch")
nn = torch.nn

if not os.environ.get("SLUICE_NETWORK_ORACLE"):
    pytest.skip("SLUICE_NETWORK_ORACLE doesn't name the C++ program",
                allow_module_level=True)
try:
    from sluice.extension import native
    native()
except sluice.SluiceError as error:
    pytest.skip(str(error), allow_module_level=True)

ORACLE = os.environ.get("SLUICE_NETWORK_ORACLE", "")
POLICIES = ["backprop", "local_loss", "delayed_gradient", "synthetic_gradient"]
ENGINES = ["virtual", "threads", "processes"]
TURNS = 12


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def mlp():
    return [functools.partial(nn.Linear, 16, 32), nn.ReLU,
            functools.partial(nn.Linear, 32, 24), nn.ReLU,
            functools.partial(nn.Linear, 24, 10)]


def batches(turns=TURNS):
    """Of four classes, whose first features tell them."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(turns, 8, 16, generator=generator)
    return x, x[:, :, :4].argmax(-1)


def network(policy="local_loss", engine="virtual", optimizer="sgd, lr = 0.1",
            layers=None, **more):
    return sluice.Network(mlp() if layers is None else layers,
                          torch.zeros(1, 16), cuts=[2, 4], boundaries=policy,
                          optimizer=optimizer, engine=engine, threads=1, seed=3,
                          **more)


def initial():
    generator = torch.Generator().manual_seed(9)
    return {f"layers.{i}.{name}": torch.randn(shape, generator=generator) / 5
            for i, (low, high) in {0: (16, 32), 2: (32, 24), 4: (24, 10)}.items()
            for name, shape in (("weight", (high, low)), ("bias", (high,)))}


def trained(net, turns=TURNS):
    """The losses of the last block, and the tensors at the end."""
    x, y = batches(turns)
    losses = [net.step(*batch).loss() for batch in zip(x, y)]
    net.drain()
    return losses, net.weights()


def same(some, others):
    return some.keys() == others.keys() and all(
        torch.equal(some[name], others[name]) for name in some)


@pytest.mark.parametrize("policy", POLICIES)
def test_python_computes_the_bits_of_the_program(policy, tmp_path):
    x, y = batches()
    files = [tmp_path / name for name in ("batches", "initial", "weights")]
    stored.save_file({"x": x, "y": y}, files[0])
    stored.save_file(initial(), files[1])
    optimizer = "adam, lr = 0.01"
    said = subprocess.run([ORACLE, *files, policy, optimizer], text=True,
                          check=True, capture_output=True).stdout
    expected = stored.load_file(files[2])
    for engine in ENGINES:
        with network(policy, engine, optimizer,
                     initial_weights=files[1]) as net:
            losses, weights = trained(net)
        assert [f"{loss:.17g}" for loss in losses] == said.split(), engine
        assert same(weights, expected), engine
    # A change that the equality would see.
    with network(policy, optimizer="adam, lr = 0.0101") as net:
        net.load(files[1])
        assert not same(trained(net)[1], expected)


def test_backprop_is_that_of_torch():
    with network("backprop") as net:
        plain = nn.Sequential(*net.modules())
        _, weights = trained(net)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    for x, y in zip(*batches()):
        optimizer.zero_grad()
        nn.functional.cross_entropy(plain(x), y).backward()
        optimizer.step()
    for name, tensor in plain.state_dict().items():
        torch.testing.assert_close(weights[f"layers.{name}"], tensor)


def test_a_state_dict_loads_back():
    with network() as net:
        before = net.state_dict()
        trained(net)
        model = nn.Sequential(*(make() for make in mlp())).eval()
        assert not same(before, net.state_dict())
        model.load_state_dict(net.state_dict())
        x, _ = batches(1)
        with torch.no_grad():
            assert torch.equal(model(x[0]), net(x[0]))
        own = [nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 24), nn.ReLU(),
               nn.Linear(24, 10)]
        net.modules(into=own)
        assert same(nn.Sequential(*own).state_dict(), net.state_dict())


def with_dropout(kind=nn.Dropout):
    return [functools.partial(nn.Linear, 16, 32),
            functools.partial(nn.Sequential, nn.ReLU(), kind(0.5)),
            functools.partial(nn.Linear, 32, 24), nn.ReLU,
            functools.partial(nn.Linear, 24, 10)]


def test_dropouts_draw_the_same_masks_on_every_engine():
    found = []
    for engine in ENGINES:
        with initial_network(engine, with_dropout()) as net:
            found.append(trained_layers(net))
    assert same(found[0], found[1]) and same(found[0], found[2])
    with initial_network("virtual", mlp()) as net:
        assert not same(trained_layers(net), found[0])


def begin_with_initial(net):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "initial")
        stored.save_file(initial(), file)
        net.load(file)


def initial_network(engine, layers):
    net = network(engine=engine, layers=layers)
    begin_with_initial(net)
    return net


def trained_layers(net):
    return {name: tensor for name, tensor in trained(net)[1].items()
            if name.startswith("layers.")}


class Counted(nn.Linear):
    forwards = 0

    def forward(self, x):
        Counted.forwards += 1
        return super().forward(x)


def test_layers_that_run_again_have_the_same_bits():
    layers = with_dropout()
    layers[0] = functools.partial(Counted, 16, 32)
    for policy in POLICIES:
        found, forwards = [], []
        for every in (0, 1):
            Counted.forwards = 0
            with network(policy, layers=layers, checkpoint_layers=every) as net:
                begin_with_initial(net)
                found.append(trained(net)[1])
            forwards.append(Counted.forwards)
        assert same(*found), policy
        assert forwards[1] >= forwards[0] + TURNS, policy


class Tied(nn.Module):
    """Two layers with one weight; biases that are frozen; a constant."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 16)
        self.b = nn.Linear(16, 16)
        self.b.weight = self.a.weight
        self.b.bias.requires_grad_(False)
        self.register_buffer("two", torch.tensor(2.0), persistent=False)

    def forward(self, x):
        return self.two * self.b(self.a(x))


def test_tied_and_frozen_parameters_are_as_in_torch():
    layers = [Tied, *mlp()[1:4], functools.partial(nn.Linear, 24, 10)]
    layers[2] = functools.partial(nn.Linear, 16, 24)
    with network("backprop", layers=layers) as net:
        plain = nn.Sequential(*net.modules())
        trained(net)
        found = net.state_dict()
    before = {name: tensor.clone()
              for name, tensor in plain.state_dict().items()}
    optimizer = torch.optim.SGD(
        [p for p in plain.parameters() if p.requires_grad], lr=0.1)
    for x, y in zip(*batches()):
        optimizer.zero_grad()
        nn.functional.cross_entropy(plain(x), y).backward()
        optimizer.step()
    torch.testing.assert_close(found, dict(plain.state_dict()))
    assert torch.equal(found["0.b.weight"], found["0.a.weight"])
    assert torch.equal(found["0.b.bias"], before["0.b.bias"])
    assert not torch.equal(found["0.a.bias"], before["0.a.bias"])


class BrokenBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("not back")


class NoWayBack(nn.Module):
    def forward(self, x):
        return BrokenBackward.apply(x)


@pytest.mark.parametrize("engine", ["virtual", "threads"])
def test_what_a_backward_in_python_raises_is_told(engine):
    layers = mlp()
    layers[1] = NoWayBack
    with network(engine=engine, layers=layers) as net:
        with pytest.raises(sluice.SluiceError, match="block 1: .*not back"):
            trained(net)


class Functional(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, 0.5, self.training)


def test_a_draw_from_the_global_generator_is_refused():
    layers = mlp()
    layers[1] = Functional
    with pytest.raises(sluice.SluiceError, match="layer 1 draws from"):
        network(layers=layers)


class Broken(nn.Module):
    def __init__(self, after):
        super().__init__()
        self.left = after

    def forward(self, x):
        self.left -= 1
        if self.left < 0:
            raise ValueError("no more")
        return x


@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_module_raises_is_told(engine):
    layers = mlp()
    layers[1] = functools.partial(Broken, 3)
    with network(engine=engine, layers=layers) as net:
        with pytest.raises(sluice.SluiceError, match=(
                r"block 1: .*ValueError: no more \(test_network.py:\d+\)")
                ) as caught:
            trained(net)
        if engine != "processes":
            assert isinstance(caught.value.__cause__, ValueError)


def test_a_write_in_place_is_refused():
    layers = mlp()
    layers[1] = functools.partial(nn.ReLU, inplace=True)
    with pytest.raises(sluice.SluiceError, match="layer 1 .* in place"):
        network(layers=layers)


@pytest.mark.parametrize("wrong, text", [
    ({"optimizer": "adm"}, "adm"), ({"engine": "vritual"}, "vritual"),
    ({"layers": [dict] * 5}, "layer 0: .*gives a dict"),
    ({"settings": "engine = 'threads'"}, "argument of Network"),
    ({"boundaries": ["local_loss"] * 3}, "3 policies for 2 boundaries")])
def test_a_mistake_is_one_line(wrong, text):
    said = {"layers": mlp(), "example": torch.zeros(1, 16), "cuts": [2, 4],
            **wrong}
    with pytest.raises(sluice.SluiceError, match=text) as caught:
        sluice.Network(**said)
    assert "\n" not in str(caught.value)


def test_what_is_no_tensor_is_refused_and_harms_nothing():
    with network() as net:
        x, y = batches(1)
        with pytest.raises(sluice.SluiceError, match="inputs is a list"):
            net.step(x.tolist(), y[0])
        with pytest.raises(sluice.SluiceError):
            net.step(x[0], y[0][:3])
        net.step(x[0], y[0])
        assert net.turns == 1


def test_lambdas_are_no_layers_of_processes():
    layers = [lambda: nn.Linear(16, 32), *mlp()[1:]]
    with network(layers=layers) as net:
        trained(net, 1)
    with pytest.raises(sluice.SluiceError, match="import the factories"):
        network(layers=layers, engine="processes")


def test_workers_import_the_script(tmp_path):
    """Functions of a script's own are layers, where it can be imported."""
    script = tmp_path / "script.py"
    script.write_text("""
import torch, sluice
def layer(): return torch.nn.Linear(4, 4)
def main():
    with sluice.Network([layer, layer], torch.zeros(1, 4), cuts=[1],
                        boundaries="local_loss", engine="processes") as net:
        print(net.step(torch.zeros(2, 4), torch.tensor([0, 1])).losses)
if __name__ == "__main__":
    main()
""")
    done = subprocess.run([sys.executable, script], text=True, check=False,
                          capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(json.loads(done.stdout)) == 2
    script.write_text(script.read_text().replace(
        'if __name__ == "__main__":', "if True:"))
    done = subprocess.run([sys.executable, script], text=True, check=False,
                          capture_output=True)
    assert done.returncode != 0
    assert 'put that under `if __name__ == "__main__":`' in done.stderr


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_is_written_and_gone_on_with(engine, tmp_path):
    seen, evaluated = [], []
    folder = tmp_path / "run"
    x, y = batches()

    def trained_until(turns, **more):
        with network(engine=engine, run=folder, on_turn=seen.append,
                     on_evaluation=evaluated.append, **more) as net:
            if not more:
                begin_with_initial(net)
            while net.turns < turns:
                net.step(x[net.turns], y[net.turns])
            net.record(net.evaluate(x[0], y[0]))
            if turns < TURNS:
                net.save()
                return None
            net.finish()
            return net.weights()

    trained_until(5)
    assert [(each["turn"], each["block"]) for each in seen] == [
        (turn, block) for turn in range(5) for block in (1, 2, 3)]
    assert all(each["loss"] > 0 for each in seen)
    weights = trained_until(TURNS, resume=True)
    assert [each["turn"] for each in evaluated] == [5, TURNS]
    run = sluice.load(folder)
    assert run.state == "done"
    assert run.result["accuracy"] == evaluated[-1]["accuracy"]
    assert len(run.records()) > 2 * TURNS
    with network() as net:  # without a break
        begin_with_initial(net)
        for turn in range(TURNS):
            net.step(x[turn], y[turn])
        assert same(net.weights(), weights)
        net.step(x[0], y[0])
        assert not same(net.weights(), weights)


def test_a_block_without_a_loss_of_its_own_has_none():
    """It learns from gradients alone: its loss was said to be NaN."""
    x, y = batches()
    with sluice.Network([functools.partial(nn.Linear, 16, 8),
                         functools.partial(nn.Linear, 8, 10)],
                        torch.zeros(1, 16), cuts=[1],
                        boundaries="backprop") as net:
        losses = net.step(x[0], y[0]).losses
    assert losses[0] is None
    assert losses[1] > 0


def test_an_evaluation_says_what_it_is():
    with sluice.Network([functools.partial(nn.Linear, 4, 2)],
                        torch.zeros(1, 4)) as net:
        evaluation = net.evaluate(torch.zeros(4, 4), torch.tensor([0, 1] * 2))
    assert repr(evaluation) == (
        f"<Evaluation: loss {evaluation.loss:.4f}, accuracy 50.00 %, 4 labels>")


def first_weights(**more):
    with sluice.Network(mlp(), torch.zeros(1, 16), cuts=[2, 4], threads=1,
                        boundaries="local_loss", optimizer="sgd, lr = 0.1",
                        **more) as net:
        return net.weights()


def test_a_seed_decides_the_first_weights_of_new_modules():
    before = torch.get_rng_state()
    weights = first_weights(seed=4)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(1)
    assert same(first_weights(seed=4), weights)
    assert same(first_weights(settings="seed = 4"), weights)
    assert same(first_weights(seed=4, engine="processes"), weights)
    assert not same(first_weights(seed=5), weights)


class Whole(nn.Module):
    def forward(self, x):
        return x


def test_a_model_that_is_no_list_is_refused_with_what_to_give():
    with pytest.raises(sluice.SluiceError, match=r"Whole is one module.*children"):
        network(layers=Whole())


@pytest.mark.parametrize("block", [0, 4, -1])
def test_a_step_has_no_figures_of_a_block_that_is_not_there(block):
    with network() as net:
        x, y = batches(1)
        step = net.step(x[0], y[0])
        for figure in (step.loss, step.accuracy, step.record):
            with pytest.raises(sluice.SluiceError, match="blocks 1 to 3"):
                figure(block)


def test_without_a_seed_first_weights_follow_from_torch():
    torch.manual_seed(1)
    weights = first_weights()
    assert not same(first_weights(), weights)
    torch.manual_seed(1)
    assert same(first_weights(), weights)


def test_a_network_and_a_step_say_what_they_are():
    with network() as net:
        x, y = batches(1)
        assert repr(net.step(x[0], y[0])) == "<Step 0 of 3 blocks>"
        assert repr(net) == "<Network of 5 layers in 3 blocks, after 1 turns>"
    assert repr(net) == "<Network of 5 layers in 3 blocks, closed>"


@pytest.mark.parametrize("page, file, least", [
    ("own-network", "mine.py", 90), ("write-a-method", "signs.py", 100)])
def test_the_programs_of_the_pages_learn(page, file, least, tmp_path):
    text = (pathlib.Path(__file__).resolve().parents[2]
            / f"docs/howto/{page}.md").read_text()
    program = text[text.index(f"as `{file}`"):].split("```python\n")[1]
    (tmp_path / file).write_text(program.split("```")[0])
    done = subprocess.run([sys.executable, file], cwd=tmp_path, text=True,
                          check=True, stdout=subprocess.PIPE).stdout
    accuracy = float(re.search(r"accuracy ([\d.]+) %", done)[1])
    assert accuracy >= least


def test_resnet18_trains_in_two_python_workers(monkeypatch):
    """As its authors write it; the model, with the weights from the workers, has
    the logits of the network in the memory format of Sluice."""
    here = os.path.dirname(os.path.abspath(__file__))
    monkeypatch.syspath_prepend(os.path.join(here, "../examples"))
    import nn_module_resnet18 as example
    weights = []
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4, 3, 32, 32, generator=generator)
    for engine in ("processes", "virtual"):
        torch.manual_seed(1)
        model = example.resnet(10)
        before = {name: tensor.clone()
                  for name, tensor in model.state_dict().items()}
        with example.network(model, engine, threads=1) as net:
            for _ in range(2):
                losses = net.step(x, torch.tensor([0, 1, 2, 3])).losses
            assert len(losses) == 2
            net.modules(into=example.parts(model))
            logits = net(x)
        weights.append(model.state_dict())
        assert not torch.equal(weights[-1]["fc.weight"], before["fc.weight"])
        assert not torch.equal(weights[-1]["conv1.weight"],
                               before["conv1.weight"])
    assert same(*weights)
    again = example.resnet(10).to(memory_format=torch.channels_last).eval()
    again.load_state_dict(weights[0])
    with torch.no_grad():
        assert torch.equal(logits, again(
            x.to(memory_format=torch.channels_last)))


def test_an_extension_for_another_torch_is_refused(tmp_path):
    (tmp_path / "_native_build.py").write_text(
        'TORCH = "1.0.0"\nPYTHON = "3.11"\n')
    done = subprocess.run(
        [sys.executable, "-c", "import sluice; from sluice.extension import "
         "native\ntry: native()\nexcept sluice.SluiceError as e: print(e)"],
        env={**os.environ, "SLUICE_EXTENSION": str(tmp_path)}, text=True,
        check=True, stdout=subprocess.PIPE).stdout
    assert "was built for torch 1.0.0" in done and "python-extension" in done
