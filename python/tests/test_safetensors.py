"""The format, against bytes that were written by hand."""
import json
import struct

import pytest

import sluice
from sluice.safetensors import File


def written(path, tensors, notes=None, cut=0):
    """tensors: name -> (type, shape, bytes)."""
    header, content = {"__metadata__": notes or {}}, b""
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [
            len(content), len(content) + len(data)]}
        content += data
    text = json.dumps(header).encode()
    whole = struct.pack("<Q", len(text)) + text + content
    path.write_bytes(whole[:len(whole) - cut])
    return path


TENSORS = {"a": ("F32", [2, 2], struct.pack("<4f", 1, 2, 3, -0.5)),
           "n": ("I64", [], struct.pack("<q", 7)),
           "none": ("F32", [0], b"")}


def test_arrays_have_their_names_shapes_and_values(tmp_path):
    pytest.importorskip("numpy")
    file = File(written(tmp_path / "x", TENSORS, {"model": "{}"}))
    arrays = file.numpy()
    assert file.notes == {"model": "{}"}
    assert list(arrays) == ["a", "n", "none"]
    assert arrays["a"].tolist() == [[1, 2], [3, -0.5]]
    assert arrays["n"].shape == () and arrays["n"] == 7
    arrays["a"][0, 0] = 9  # its own memory
    assert file.numpy()["a"][0, 0] == 1


def test_tensors_too(tmp_path):
    torch = pytest.importorskip("torch")
    tensors = File(written(tmp_path / "x", TENSORS | {
        "h": ("BF16", [1], b"\x80\x3f")})).torch()
    assert tensors["a"].tolist() == [[1, 2], [3, -0.5]]
    assert tensors["n"].item() == 7 and tensors["n"].shape == ()
    assert tensors["h"].dtype == torch.bfloat16 and tensors["h"].item() == 1
    assert tensors["none"].numel() == 0


def test_a_file_that_is_cut_off_or_no_such_file_is_told(tmp_path):
    pytest.importorskip("numpy")
    with pytest.raises(sluice.SluiceError, match="n lies outside"):
        File(written(tmp_path / "x", TENSORS, cut=4)).numpy()
    (tmp_path / "y").write_bytes(b"\xff" * 32)
    with pytest.raises(sluice.SluiceError, match="no safetensors file"):
        File(tmp_path / "y")
    with pytest.raises(sluice.SluiceError, match="absent"):
        File(tmp_path / "absent")


def test_the_format_is_that_of_its_authors(tmp_path):
    numpy = pytest.importorskip("numpy")
    theirs = pytest.importorskip("safetensors.numpy")
    arrays = {"x": numpy.arange(6, dtype="<i8").reshape(2, 3),
              "y": numpy.array([0.5, -2], dtype="<f2")}
    theirs.save_file(arrays, tmp_path / "x", {"said": "so"})
    file = File(tmp_path / "x")
    ours = file.numpy()
    assert file.notes == {"said": "so"}
    assert ours.keys() == arrays.keys()
    for name, array in arrays.items():
        assert ours[name].dtype == array.dtype
        assert (ours[name] == array).all()
