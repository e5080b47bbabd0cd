"""Networks scripted by Python, trained by the program, and taken back."""
import pytest

import sluice
from sluice.program import call

torch = pytest.importorskip("torch")
pytest.importorskip("sluice.models")
from torch import nn  # noqa: E402

IMAGES = {"name": "drawn_digits", "train": 128, "test": 32}
METHODS = {
    "local_loss": {"policy": "local_loss", "head": {"name": "linear"}},
    "delayed_gradient": {"policy": "delayed_gradient", "weights": "stash"},
}


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.bn = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.bn(self.conv(x)) + x)


class Net(nn.Module):
    """In the shape of torchvision's ResNets."""

    def __init__(self, drop=0.1):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.layer1 = nn.Sequential(Residual(4), Residual(4))
        self.layer2 = nn.Sequential(Residual(4), nn.MaxPool2d(2))
        self.avgpool = nn.AdaptiveAvgPool2d((2, 2))
        self.drop = nn.Dropout(drop)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        return self._forward_impl(x)

    def _forward_impl(self, x):
        x = self.layer2(self.layer1(self.conv1(x)))
        x = torch.flatten(self.avgpool(x), 1)
        return self.fc(self.drop(x))


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def scripted(path, **options):
    torch.manual_seed(3)
    net = Net(**options)
    torch.jit.script(net).save(str(path))
    return net


def trained(tiny, boundary, **model):
    run = sluice.run(tiny | {
        "model": {"name": "torchscript", "file": "net.pt"} | model,
        "data": IMAGES, "turns": 6, "evaluate_every": 0,
        "boundary": boundary}, folder="run")
    linked = run.about["libtorch"]
    if torch.__version__.partition("+")[0] != linked:
        pytest.skip(f"torch {torch.__version__} here, and LibTorch {linked} in "
                    "the program")
    return run


def logits_of(model, inputs):
    with torch.no_grad():
        return model(inputs)


@pytest.mark.parametrize("method", METHODS)
def test_weights_load_back_with_the_same_logits(program, tiny, here, method):
    net = scripted("net.pt")
    run = trained(tiny, METHODS[method])
    theirs = run.evaluate(samples=16)
    inputs = theirs["inputs"]
    assert torch.equal(logits_of(run.model(), inputs), theirs["logits"])
    call("export", run.folder, "--torchscript", "out.pt")
    back = torch.jit.load("out.pt").eval()
    untrained = logits_of(net.eval(), inputs)
    net.load_state_dict(back.state_dict())
    for model in (back, net):
        logits = logits_of(model, inputs)
        assert torch.allclose(logits, theirs["logits"], atol=1e-5)
        assert not torch.allclose(logits, untrained, atol=1e-3)


def test_names_of_the_weights_are_those_of_the_state_dict(program, tiny, here):
    net = scripted("net.pt")
    run = trained(tiny, METHODS["local_loss"], cuts=["layer1.1", "layer2"])
    names = {name.split(".", 2)[2] for name in run.weights()}
    assert names == set(net.state_dict())
    assert "layers.1.layer1.1.conv.weight" in run.weights()
    assert "layers.2.layer2.0.bn.running_mean" in run.weights()


def test_batches_are_counted_once(program, tiny, here):
    scripted("net.pt")
    run = trained(tiny, METHODS["delayed_gradient"])
    counts = {int(tensor) for name, tensor in run.weights().items()
              if name.endswith("num_batches_tracked")}
    assert counts == {6}


@pytest.mark.filterwarnings("ignore")
def test_a_trace_is_refused(program, tiny, here):
    net = Net().train()
    torch.jit.trace(net, torch.zeros(2, 1, 28, 28),
                    check_trace=False).save("net.pt")
    with pytest.raises(sluice.SluiceError, match="torch.jit.trace"):
        trained(tiny, METHODS["local_loss"])


def test_weights_of_python_alone_are_no_script(program, tiny, here):
    torch.save(Net().state_dict(), "net.pt")
    with pytest.raises(sluice.SluiceError, match="is no TorchScript file"):
        trained(tiny, METHODS["local_loss"])


class Strange(nn.Module):
    """Writes a file in its forward."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(784, 10)

    def forward(self, x):
        torch.save(x, "victim")
        return self.fc(torch.flatten(x, 1))


def test_a_script_that_writes_files_is_refused_before_it_runs(
        program, tiny, here):
    torch.jit.script(Strange()).save("net.pt")
    with pytest.raises(sluice.SluiceError, match="aten::save"):
        trained(tiny, METHODS["local_loss"])
    assert not (here / "victim").exists()


def test_a_script_of_a_run_is_looked_at_before_python_loads_it(
        program, tiny, here):
    scripted("net.pt")
    file = here / "model.safetensors"
    call("export", trained(tiny, METHODS["local_loss"]).folder, "--out", file)
    assert sluice.load_model(file) is not None
    torch.jit.script(Strange()).save("net.pt")
    with pytest.raises(sluice.SluiceError, match="aten::save"):
        sluice.load_model(file)


def test_a_run_whose_file_has_gone_says_so(program, tiny, here):
    scripted("net.pt")
    run = trained(tiny, METHODS["local_loss"])
    (here / "net.pt").rename(here / "other.pt")
    with pytest.raises(sluice.SluiceError, match="net.pt"):
        run.model()
