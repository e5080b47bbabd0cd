"""Dicts and texts become the TOML that they say."""
import pathlib
import tomllib

import pytest

import sluice
from sluice import config


def read_back(said):
    return tomllib.loads(config.to_toml(said))


def test_a_dict_is_read_back_as_it_was():
    said = {"name": 'a "quoted" \\ name\n\u00e9\x01', "turns": 3, "on": True,
            "lr": 1e-05, "big": 1e300, "whole": 2.0, "list": [[1], [2, 3]],
            "boundary": {"policy": "backprop", "2": {"codec": "int8"}},
            "model": {"layer": [{"type": "conv", "size": 3}, {"type": "relu"}]}}
    assert read_back(said) == said
    assert isinstance(read_back({"x": 2.0})["x"], float)
    assert isinstance(read_back({"x": 2})["x"], int)


def test_dots_are_tables():
    assert read_back({"optimizer.lr": 0.1, "optimizer": {"name": "sgd"}}) == {
        "optimizer": {"lr": 0.1, "name": "sgd"}}
    with pytest.raises(sluice.SluiceError, match="blocks is a value"):
        config.nested({"blocks": 2, "blocks.x": 1})


def test_what_has_no_place_in_toml_is_refused():
    with pytest.raises(sluice.SluiceError, match="no place in a config"):
        config.to_toml({"seed": None})


def test_overrides_are_those_of_the_command_line():
    assert config.overrides({"optimizer__lr": 0.1, "optimizer.name": "sgd",
                             "model": {"hidden": [8]}}) == [
        "optimizer.lr=0.1", 'optimizer.name="sgd"', "model={hidden = [8]}"]


def test_in_a_sweep_a_list_is_an_axis():
    assert config.axes({"lr": [0.1, 1.0], "hidden": [[8], [8, 8]], "seed": 1,
                        "x": sluice.Space("uniform(0,1)")}) == [
        "lr=0.1,1.0", "hidden=[8],[8, 8]", "seed=1", "x=uniform(0,1)"]


def test_numbers_of_numpy_are_numbers():
    numpy = pytest.importorskip("numpy")
    assert config.toml_value(numpy.float64(0.5)) == "0.5"
    assert config.toml_value(numpy.int64(3)) == "3"
    assert config.toml_value(numpy.bool_(True)) == "true"
    assert config.toml_value(numpy.array(0.5)) == "0.5"
    assert config.toml_value(numpy.longdouble(0.5)) == "0.5"
    assert config.toml_value(numpy.str_("a")) == '"a"'


def test_arrays_are_lists():
    numpy = pytest.importorskip("numpy")
    assert config.overrides({"model__hidden": numpy.array([16, 8])}) == [
        "model.hidden=[16, 8]"]
    assert config.toml_value(numpy.array([3])) == "[3]"
    assert config.toml_value([numpy.float32(0.5), numpy.int8(2)]) == "[0.5, 2]"
    assert config.toml_value(numpy.zeros((2, 1))) == "[[0.0], [0.0]]"
    assert config.toml_value(range(3)) == "[0, 1, 2]"
    with pytest.raises(sluice.SluiceError, match="has no place"):
        config.toml_value(numpy.complex64(1j))


def test_in_a_sweep_an_array_is_an_axis():
    numpy = pytest.importorskip("numpy")
    assert config.axes({"optimizer__lr": numpy.array([0.5, 0.25]),
                        "seed": numpy.int64(2)}) == [
        "optimizer.lr=0.5,0.25", "seed=2"]
    assert config.axes({"blocks": range(1, 3)}) == ["blocks=1,2"]


def test_a_path_stays_and_a_text_becomes_a_file(here):
    with config.as_file("some/path.toml") as path:
        assert path == "some/path.toml"
    with config.as_file("turns = 3\n[model]\nname = 'mlp'\n") as path:
        assert tomllib.loads(pathlib.Path(path).read_text()) == {
            "turns": 3, "model": {"name": "mlp"}}
    assert not pathlib.Path(path).exists()
    with pytest.raises(sluice.SluiceError, match="no TOML"):
        with config.as_file("turns = \n"):
            pass


def test_what_a_dict_extends_is_looked_for_from_here(here):
    with config.as_file({"extends": ["base.toml"]}) as path:
        said = tomllib.loads(pathlib.Path(path).read_text())
    assert said["extends"] == [str(here / "base.toml")]


def test_the_name_is_that_of_the_last_layer_that_has_one(here):
    (here / "base.toml").write_text('name = "base"\n')
    (here / "over.toml").write_text('extends = ["base.toml"]\n')
    assert config.name_of(here / "over.toml", {}) == "base"
    assert config.name_of(here / "over.toml", {"name": "mine"}) == "mine"
    assert config.name_of(here / "absent.toml", {}) == "run"
