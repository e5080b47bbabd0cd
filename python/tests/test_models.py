"""nn.Modules have the logits of the program, bit for bit."""
import copy
import pathlib
import sys
import warnings

import pytest

import sluice
from sluice.program import call

torch = pytest.importorskip("torch")
pytest.importorskip("sluice.models")
CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
# What this file itself says is a text.
TEXT = {"name": "text", "file": str(pathlib.Path(__file__).resolve()),
        "context": 16}
IMAGES = {"name": "drawn_digits", "train": 128, "test": 32}
LISTED = [{"type": "conv", "channels": 4}, {"type": "batch_norm"},
          {"type": "gelu"}, {"type": "avg_pool", "size": 3, "padding": 1},
          {"type": "conv", "channels": 6, "size": 5, "stride": 2},
          {"type": "leaky_relu"}, {"type": "global_pool"},
          {"type": "linear", "outputs": 12}, {"type": "layer_norm"},
          {"type": "tanh"}, {"type": "dropout", "p": 0.2},
          {"type": "linear"}]
MODELS = {
    "mlp": ({"name": "mlp", "hidden": [24, 16], "batch_norm": True,
             "activation": "tanh", "dropout": 0.1}, IMAGES),
    "conv3": ({"name": "conv3", "channels": 8}, IMAGES),
    "small_conv": ({"name": "small_conv", "channels": [4, 6], "hidden": 12,
                    "batch_norm": True}, IMAGES),
    "vgg8b": ({"name": "vgg8b", "width": 0.05, "hidden": 16, "dropout": 0.1},
              IMAGES),
    "vgg11b": ({"name": "vgg11b", "width": 0.04, "hidden": 16,
                "head_before_pool": False}, IMAGES),
    "resnet": ({"name": "resnet", "depth": 8, "width": 4}, IMAGES),
    # With 4 channels LibTorch 2.13 corrupts the heap on some EPYCs, in plain
    # Python too.
    "resnet18": ({"name": "resnet18", "width": 8}, IMAGES),
    "resnet50": ({"name": "resnet50", "width": 2, "stem": 64}, IMAGES),
    "revnet": ({"name": "revnet", "width": 8, "blocks": [1, 2]}, IMAGES),
    # Sums long enough that their order shows.
    "gpt, wide": ({"name": "gpt", "layers": 1, "width": 272, "heads": 2}, TEXT),
    "vit": ({"name": "vit", "patch": 7, "layers": 2, "width": 24, "heads": 3},
            IMAGES),
    "vit, mean": ({"name": "vit", "patch": 7, "layers": 1, "width": 24,
                   "heads": 2, "pool": "mean"}, IMAGES),
    "mlp_mixer": ({"name": "mlp_mixer", "patch": 7, "layers": 2, "width": 16,
                   "token_hidden": 8, "channel_hidden": 24}, IMAGES),
    "layers": ({"name": "layers", "layer": LISTED}, IMAGES),
    "gpt": ({"name": "gpt", "layers": 2, "width": 24, "heads": 2}, TEXT),
    "gpt, tied": ({"name": "gpt", "layers": 2, "width": 24, "heads": 2,
                   "tied": True, "bias": False, "activation": "gelu"}, TEXT),
    "llama": ({"name": "llama", "layers": 2, "width": 24, "heads": 4}, TEXT),
    "llama, shared heads": (
        {"name": "llama", "layers": 1, "width": 24, "heads": 4, "kv_heads": 2,
         "hidden": 20, "rotary_base": 500.0}, TEXT),
    "lstm": ({"name": "lstm", "layers": 2, "width": 16}, TEXT),
}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trained(tiny, model, data, **more):
    """Weights and statistics that are nobody's initial ones."""
    tiny |= {"model": model, "data": data, "turns": 3, "evaluate_every": 0,
             "boundary": {"policy": "backprop"}}
    run = sluice.run(tiny | more, folder="run")
    check_same_torch(run)
    return run


def check_same_torch(run):
    """Another version may round in other places."""
    linked = run.about["libtorch"]
    if torch.__version__.partition("+")[0] != linked:
        pytest.skip(f"torch {torch.__version__} here, and LibTorch {linked} in "
                    "the program")


def logits_of(model, inputs):
    with torch.no_grad():
        return model(inputs)


def models_of_the_program():
    return {line.split()[0] for line in call("list", "models").splitlines()
            if line.startswith("  ") and line.strip()}


def test_every_model_of_the_program_is_here(program):
    assert "mlp" in models_of_the_program()
    assert models_of_the_program() <= set(sluice.models.MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_the_program(program, tiny, here, name):
    model, data = MODELS[name]
    if model["name"] not in models_of_the_program():
        pytest.skip("this program is older than the model")
    run = trained(tiny, copy.deepcopy(model), data)
    theirs = run.evaluate(samples=16)
    ours = run.model()
    assert not ours.training
    logits = logits_of(ours, theirs["inputs"])
    assert logits.shape == theirs["logits"].shape
    assert torch.equal(logits, theirs["logits"])
    # Each tensor has a part in them.
    for parameter in ours.parameters():
        parameter.data.mul_(1.5).add_(0.01)
    assert not torch.equal(logits_of(ours, theirs["inputs"]), logits)


@pytest.mark.parametrize("more", [{"memory_format": "contiguous"},
                                  {"precision": "bf16"}], ids=str)
def test_layout_and_precision_are_those_of_the_run(program, tiny, here, more):
    run = trained(tiny, *copy.deepcopy(MODELS["small_conv"]), **more)
    theirs = run.evaluate(samples=16)
    model = run.model()
    assert torch.equal(logits_of(model, theirs["inputs"]), theirs["logits"])


def test_forward_forward_scores_the_classes(program, tiny, here):
    run = sluice.run(tiny | {
        "model": {"name": "ff_mlp", "hidden": [16, 12]}, "data": IMAGES,
        "turns": 3, "evaluate_every": 0, "loss": {"name": "goodness"},
        "blocks": ["0", "1"], "boundary": {
            "policy": "local_loss", "head": {"name": "forward_forward"}}},
        folder="run")
    check_same_torch(run)
    theirs = run.evaluate(samples=16)
    assert torch.equal(logits_of(run.model(), theirs["inputs"]),
                       theirs["logits"])


def test_a_plain_network_makes_the_same_of_the_weights(program, tiny, here):
    """An oracle that shares no code with the package."""
    sys.path.insert(0, str(CHECKOUT / "tests/interop"))
    plain_models = pytest.importorskip("plain_models")
    run = trained(tiny, *copy.deepcopy(MODELS["gpt"]), seed=2)
    inputs = run.evaluate(samples=4)["inputs"]
    file = sluice.load(run.folder)._exported(None)
    sample = {"shape": [16], "classes": run.model().layers[0].token
              .num_embeddings}
    oracle = plain_models.model_for(run.config["model"], sample)
    oracle.load_state_dict(file.torch())
    assert torch.equal(logits_of(oracle.eval(), inputs),
                       logits_of(run.model(), inputs))


@pytest.mark.parametrize("name", ["gpt", "llama", "lstm"])
def test_a_language_model_says_what_its_logits_prefer(program, tiny, here,
                                                      name):
    run = trained(tiny, *copy.deepcopy(MODELS[name]), turns=30)
    prompt = "import torch\n" * 3  # longer than the context
    said = run.sample(prompt, tokens=5, temperature=0)
    assert said.startswith(prompt) and len(said) == len(prompt) + 5
    letters = sorted(set(pathlib.Path(TEXT["file"]).read_bytes()))
    seen = torch.tensor([[letters.index(byte) for byte in prompt.encode()][-16:]])
    best = logits_of(run.model(), seen)[0, -1].argmax()
    assert said[len(prompt)] == chr(letters[best])
    assert run.sample(tokens=15, seed=1) == run.sample(tokens=15, seed=1)
    assert run.sample(tokens=15, seed=1) != run.sample(tokens=15, seed=2)
    with pytest.raises(sluice.SluiceError, match="only such as are in"):
        run.sample("\x01")


def test_weights_are_arrays_by_name(tiny_run):
    pytest.importorskip("numpy")
    weights = tiny_run.weights()
    assert weights["layers.0.linear.weight"].shape == (16, 28 * 28)
    state = tiny_run.model().state_dict()
    assert state.keys() == weights.keys()
    assert (state["layers.2.linear.bias"].numpy()
            == weights["layers.2.linear.bias"]).all()


def test_an_exported_file_needs_no_program(tiny_run, here, monkeypatch):
    file = tiny_run.export(here / "model.safetensors")
    inputs = tiny_run.evaluate(samples=4)["inputs"]
    logits = logits_of(tiny_run.model(), inputs)
    monkeypatch.setenv("SLUICE_PROGRAM", "/nowhere")
    assert torch.equal(logits_of(sluice.load_model(file), inputs), logits)


def test_a_model_trains_on_in_torch(tiny_run):
    model = tiny_run.model().train()
    data = tiny_run.evaluate(samples=64)
    losses = []
    for _ in range(5):
        loss = torch.nn.functional.cross_entropy(model(data["inputs"]),
                                                 data["labels"])
        parameters = list(model.parameters())
        for parameter, gradient in zip(parameters, torch.autograd.grad(
                loss, parameters)):
            parameter.data -= 0.05 * gradient
        losses.append(loss.item())
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("codec, told", [
    ("int8", "int8"),
    ({"name": "top_k", "ratio": 0.5}, "top_k"),
    ({"up": {"name": "top_k"}, "down": "int8"}, "top_k"),
])
def test_a_codec_that_is_left_out_is_told(program, tiny, here, codec, told):
    tiny["boundary"] = {"policy": "backprop", "codec": codec}
    run = sluice.run(tiny | {"turns": 3}, folder="run")
    with pytest.warns(UserWarning, match=f"codec {told}"):
        run.model()


@pytest.mark.parametrize("codec", [
    {"up": {"name": "delta", "bits": 4}, "down": "none"}, {"down": "int8"},
    {"up": "codebook"}, {"name": "low_rank", "ratio": 1.0},
    {"name": "int8", "exact_evaluations": True}])
def test_a_codec_without_effect_on_evaluations_is_not_told(
        program, tiny, here, codec):
    tiny["boundary"] = {"policy": "backprop", "codec": codec}
    run = sluice.run(tiny | {"turns": 3}, folder="run")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.model()


def test_layers_of_a_low_rank_are_refused(program, tiny, here):
    tiny["boundary"] = {"policy": "backprop", "codec": "low_rank"}
    run = sluice.run(tiny | {"turns": 3}, folder="run")
    with pytest.raises(sluice.SluiceError, match="codec low_rank"):
        run.model()


def test_a_file_of_another_model_is_refused(tiny_run, tmp_path):
    from sluice.models import load, make_model

    options = tiny_run.config["model"] | {"hidden": [16]}
    other = make_model(options, {"shape": [1, 28, 28], "classes": 10})
    with pytest.raises(sluice.SluiceError, match="of another model"):
        load(other, tiny_run._exported(None))
