"""Data sets for a loop of one's own are those that runs see."""
import pytest

import sluice

torch = pytest.importorskip("torch")
SMALL = {"train": 256, "test": 64}  # as conftest.TINY


def evaluation(model, dataset):
    """(loss, accuracy) of a model."""
    inputs, labels = dataset.tensors
    with torch.no_grad():
        logits = model(inputs)
    return (torch.nn.functional.cross_entropy(logits, labels).item(),
            (logits.argmax(1) == labels).double().mean().item())


def test_the_splits_are_those_that_a_run_evaluates(program, here, tiny):
    tiny["data"] |= {"validation": 0.25, "evaluate_training": 192}
    run = sluice.run(tiny, folder="run")
    for split, prefix in (("test", ""), ("validation", "validation_"),
                          ("train", "training_")):
        digits = sluice.data.dataset("drawn_digits", split, validation=0.25,
                                     **SMALL)
        loss, accuracy = evaluation(run.model("last"), digits)
        assert loss == pytest.approx(run.result[f"{prefix}loss"], rel=1e-5)
        assert accuracy == pytest.approx(run.result[f"{prefix}accuracy"])


def test_a_loader_gives_batches_of_images_and_labels(program):
    from torch.utils.data import DataLoader

    digits = sluice.data.dataset(samples=10, **SMALL)
    shapes = [(images.shape, labels.dtype)
              for images, labels in DataLoader(digits, batch_size=4)]
    assert shapes == [((n, 1, 28, 28), torch.int64) for n in (4, 4, 2)]


def test_absent_files_are_named_with_the_remedy(program, tmp_path):
    with pytest.raises(sluice.SluiceError) as raised:
        sluice.data.dataset("mnist", root=tmp_path)
    assert str(tmp_path) in str(raised.value)
    assert "sluice data fetch" in str(raised.value)


@pytest.mark.parametrize("arguments, settings, line", [
    (["drawn_digits", "training"], {}, "there are train, test, validation"),
    (["drawn_digits", "validation"], {}, "validation=0.1"),
    ([], {"augment__crop": 2}, "do it in your loop")])
def test_what_it_cannot_do_is_refused(arguments, settings, line):
    with pytest.raises(sluice.SluiceError, match=line):
        sluice.data.dataset(*arguments, **settings)
