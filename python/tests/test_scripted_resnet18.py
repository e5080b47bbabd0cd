"""The example scripted_resnet18.py: a ResNet-18 of PyTorch's, trained in two
blocks by the program for a few turns, and taken back."""
import os
import pathlib
import sys

import pytest

import sluice

torch = pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))
import scripted_resnet18 as example  # noqa: E402

IMAGES = 48  # of each file


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def write_cifar(folder):
    """Noise in files of CIFAR-10's format."""
    folder.mkdir()
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        records = (bytes([i % 10]) + os.urandom(3072) for i in range(IMAGES))
        (folder / f"{name}.bin").write_bytes(b"".join(records))


def check_same_torch(run):
    """Another version may round in other places."""
    linked = run.about["libtorch"]
    if torch.__version__.partition("+")[0] != linked:
        pytest.skip(f"torch {torch.__version__} here, and LibTorch {linked} in "
                    "the program")


def gap(net, evaluation):
    return (example.logits_of(net, evaluation["inputs"])
            - evaluation["logits"]).abs().max().item()


@pytest.mark.parametrize("method", example.METHODS)
def test_it_trains_and_comes_back_with_the_same_logits(program, here, capsys,
                                                       method):
    write_cifar(here / "cifar-10-batches-bin")
    torch.manual_seed(3)
    example.main(["--method", method, "--folder", "out", f"data.root={here}",
                  "turns=4", "batch_size=16", "engine=virtual", "threads=1",
                  "log_every=1", "evaluate_every=0", "limit.evaluation=32"])
    run = sluice.load("out/run")
    check_same_torch(run)
    assert "differ from the program's by at most 0\n" in capsys.readouterr().out
    assert {r["block"] for r in run.records() if r["kind"] == "train"} == {1, 2}
    assert run.config["boundary"]["1"]["policy"] == method
    evaluation = run.evaluate(samples=32)
    net = example.resnet18()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    assert gap(net, evaluation) > 1e-3
    trained = torch.load("out/resnet18.pth")
    net.load_state_dict(trained)
    assert gap(net, evaluation) == 0
    script = torch.jit.load("out/resnet18.pt").state_dict()
    assert script.keys() == before.keys() == trained.keys()
    for name, tensor in trained.items():  # both blocks have learned
        assert not torch.equal(tensor, script[name]), name


def test_overrides_are_values_of_toml_or_texts():
    assert example.overrides_of(["a.b=1", "c=1e-3", "d=[1, 2]", "e=cosine",
                                 "f='x=y'", "g=x=y"]) == {
        "a.b": 1, "c": 1e-3, "d": [1, 2], "e": "cosine", "f": "x=y", "g": "x=y"}
