"""The examples in docstrings do what they show."""

import bz2
import doctest
import importlib
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"
MODULES = ["api.prediction", "api.reports", "api.stores", "api.training"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name, tmp_path, monkeypatch):
    for file, kind in (("rows.svm", "train"), ("more.svm", "test")):
        text = bz2.decompress((DATA / f"heart_scale.{kind}.svm.bz2").read_bytes())
        (tmp_path / file).write_bytes(text)
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(f"blocklinear.{name}")
    found = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert found.attempted > 0
    assert found.failed == 0
