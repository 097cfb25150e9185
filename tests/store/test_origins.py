"""The place in the text of the first row with a label."""

from dataclasses import replace

import pytest

from blocklinear.batches.writer import StoreWriter
from blocklinear.errors import InputError
from blocklinear.ingest.compact import compact
from blocklinear.ingest.split import split
from blocklinear.options import SplitOptions, TrainOptions
from blocklinear.selection.cross_validation import cross_validate
from blocklinear.store.changes import remove
from blocklinear.training.garbage import collect_garbage
from blocklinear.training.loop import train

from .build import small_text_options
from .changing import add_text

CASES = {
    "first line": (["0.5 1:1\n" + "1 1:1\n" * 50], "first in line 1 of {0}"),
    "amid whole ones": (["1 1:1\n" * 300 + "0.5 2:1\n" * 9], "first in line 301 of {0}"),
    "second source": (["1 1:1\n" * 30, "-1 1:1\n" * 4 + "0.5 2:1\n"], "first in line 5 of {1}"),
    "behind a comment": (["# text\n1 1:1\n0.5 1:1\n"], "first in row 2 of {0}"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("blocks", [1, 7])
def test_a_label_that_is_no_class_is_found(case, blocks, tmp_path):
    texts, said = CASES[case]
    paths = [tmp_path / f"{k}.svm" for k in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    options = SplitOptions(blocks=blocks, text=small_text_options())
    store = split(paths, tmp_path / "store", options)
    for learn in (train, cross_validate):
        with pytest.raises(InputError, match=r"label 0\.5 is not an integer") as caught:
            learn(store, TrainOptions(solver=3))
        assert said.format(*paths) in str(caught.value)


def test_rows_from_python_are_counted_from_0(tmp_path):
    with StoreWriter(tmp_path / "store") as writer:
        writer.append([[1.0], [2.0]], [1, -1])
        writer.append([[3.0], [4.0]], [1, 0.5])
    with pytest.raises(InputError, match="first in row 3, counted from 0, of Python"):
        train(writer.store, TrainOptions(solver=3))


def test_the_line_is_the_first_where_blocks_are_joined(tmp_path):
    """Their chunks are not in the order of rows."""
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1\n-1 1:1\n" * 2 + "0.5 1:1\n" * 36)
    text = small_text_options()
    store = split([path], tmp_path / "store", SplitOptions(blocks=4, text=text))
    compact(store)
    with pytest.raises(InputError, match="first in line 5 of"):
        train(store, TrainOptions(solver=3))


def test_the_line_is_not_told_where_batches_are_no_longer_in_order(tmp_path):
    first = tmp_path / "first.svm"
    first.write_text("1 1:1\n-1 2:1\n")
    store = split([first], tmp_path / "store", SplitOptions(text=small_text_options()))
    old, *_ = store.manifest.batches
    batches = [
        old | {"name": name, "date": f"2026-01-0{day}"} for name, day in (("x", 3), ("y", 2))
    ]
    manifest = replace(store.manifest, batches=batches, next_row=4)
    assert manifest.place_of(3, "y") == "batch y"
    manifest = replace(manifest, batches=batches[::-1])
    assert manifest.place_of(3, "x") == f"line 2 of {first}"


def test_only_the_batch_is_known_once_another_was_forgotten(tmp_path):
    first = tmp_path / "first.svm"
    first.write_text("1 1:1\n-1 2:1\n")
    store = split([first], tmp_path / "store", SplitOptions(text=small_text_options()))
    store = add_text(store, b"0.5 1:1\n")
    remove(store, ["b1"])
    collect_garbage(store)
    with pytest.raises(InputError, match=r"label 0\.5 .*first in batch b2"):
        train(store, TrainOptions(solver=3))
