"""Changes that may be given again: what is there already is not added, what is gone not removed."""

import os
import sys
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest

from blocklinear.errors import InputFormatError, MismatchError, UsageError
from blocklinear.events import BatchPresent
from blocklinear.ingest.add import add
from blocklinear.ingest.compact import compact
from blocklinear.ingest.split import split
from blocklinear.options import SplitOptions
from blocklinear.store.changes import remove
from blocklinear.store.store import BlockStore

from .build import TEXT, make_store, small_text_options, tree
from .changing import MORE, add_options, as_0_1_0, refused


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path)


@pytest.fixture
def monday(tmp_path):
    path = tmp_path / "monday.svm"
    path.write_bytes(MORE)
    return path


def add_again(store, inputs, heard=None, weights=None, **options):
    how = replace(add_options(if_absent=True, **options), weights=weights)
    return add(store, inputs, how, heard.append if heard is not None else lambda event: None)


def unchanged(store, inputs, name, **options):
    """Add what must be there already; nothing may change, and its name is told."""
    before, heard = tree(store.folder), []
    found = add_again(store, inputs, heard, **options)
    assert found.manifest == BlockStore.open(store.folder).manifest
    assert [event for event in heard if isinstance(event, BatchPresent)] == [BatchPresent(name)]
    assert tree(store.folder) == before


def test_what_is_absent_is_added(store, monday):
    heard = []
    store = add_again(store, [monday], heard, batch="monday")
    assert [batch["name"] for batch in store.manifest.batches] == ["b1", "monday"]
    assert not any(isinstance(event, BatchPresent) for event in heard)


@pytest.mark.parametrize("name", ["monday", None])
def test_what_is_present_is_not_added(store, monday, name):
    store = add_again(store, [monday], batch="monday")
    unchanged(store, [monday], "monday", batch=name)


def test_of_several_inputs_all_must_be_there(store, monday, tmp_path):
    (tmp_path / "other").write_bytes(b"1 1:7\n")
    store = add_again(store, [monday, tmp_path / "other"], batch="both")
    unchanged(store, [monday, tmp_path / "other"], "both", batch="both")
    (tmp_path / "copy").write_bytes(MORE)
    unchanged(store, [tmp_path / "copy", tmp_path / ".." / tmp_path.name / "other"], "both")
    for inputs in ([monday], [tmp_path / "other", monday], [monday, monday]):
        refused(MismatchError, 5, add_again, store, inputs, batch="both", match="not of this input")
        refused(MismatchError, 5, add_again, store, inputs, match="same content.*\n.*leave it")


def test_another_text_under_the_name_of_a_batch(store, monday):
    """As when the file was not yet whole: that its rows are there would be untrue."""
    store = add_again(store, [monday], batch="monday")
    monday.write_bytes(MORE + b"1 1:1\n")
    before = tree(store.folder)
    refused(MismatchError, 5, add_again, store, [monday], batch="monday", match="not of this input")
    monday.write_bytes(MORE.replace(b"0.25", b"0.26"))  # as long
    refused(MismatchError, 5, add_again, store, [monday], batch="monday", match="not of this input")
    assert tree(store.folder) == before


def test_a_text_that_is_there_under_another_name(store, monday):
    """It would not go when the batch that is asked for goes."""
    store = add_again(store, [monday], batch="monday")
    refused(MismatchError, 5, add_again, store, [monday], batch="tuesday", match="batch monday")
    allowed = {"batch": "tuesday", "allow_duplicate": True}
    store = add_again(store, [monday], **allowed)
    assert store.manifest.batches[2]["name"] == "tuesday"
    unchanged(store, [monday], "tuesday", **allowed)


def test_what_was_removed_is_absent(store, monday):
    store = add_again(store, [monday], batch="monday")
    store = remove(store, ["monday"])
    assert add_again(store, [monday], batch="monday").manifest.n_rows == 10


def test_a_batch_that_lost_blocks_is_not_called_present(store, monday):
    store = add_again(store, [monday], batch="monday", blocks=3)
    block = next(b for b in store.manifest.blocks if b.batch == "monday" and b.rows)
    store = remove(store, blocks=[block.name])
    refused(MismatchError, 5, add_again, store, [monday], batch="monday", match="were removed")


def test_a_batch_that_was_merged_with_others(store, monday):
    store = add_again(store, [monday], batch="monday")
    store = compact(store, merge_batches=("week", ["monday"]))
    unchanged(store, [monday], "week")
    refused(MismatchError, 5, add_again, store, [monday], batch="monday", match="batch week")


def test_the_first_batch_too(store, tmp_path):
    unchanged(store, [tmp_path / "store.svm"], "b1")
    unchanged(store, [tmp_path / "store.svm"], "b1", batch="b1")


def test_a_store_of_version_0_1_0(store, tmp_path):
    """Its sources are told by SHA-256."""
    as_0_1_0(store, TEXT)
    unchanged(store, [tmp_path / "store.svm"], "b1")
    (tmp_path / "store.svm").write_bytes(TEXT.replace(b"3.14159", b"3.14158"))
    refused(
        MismatchError, 5, add_again, store, [tmp_path / "store.svm"], batch="b1", match="not of"
    )


@pytest.fixture
def pipe(monkeypatch):
    """Make standard input of some bytes."""

    def fill(data):
        reading, writing = os.pipe()
        os.write(writing, data)
        os.close(writing)
        monkeypatch.setattr(sys, "stdin", stack.enter_context(os.fdopen(reading)))

    with ExitStack() as stack:
        yield fill


@pytest.mark.parametrize("name", ["monday", None])
def test_a_stream_is_told_by_what_was_read(store, monday, pipe, name):
    bad = {"on_error": "skip"}
    monday.write_bytes(MORE + b"1 x:1\n")
    store = add_again(store, [monday], batch="monday", **bad)
    assert (store.folder / "skipped-monday.txt").exists()
    pipe(MORE + b"1 x:1\n")
    unchanged(store, ["-"], "monday", batch=name, **bad)


def test_another_stream(store, monday, pipe):
    store = add_again(store, [monday], batch="monday")
    before = tree(store.folder)
    pipe(MORE + b"1 1:1\n")
    refused(MismatchError, 5, add_again, store, ["-"], batch="monday", match="not of this input")
    pipe(b"x\n")
    refused(InputFormatError, 3, add_again, store, ["-"], batch="monday")
    assert tree(store.folder) == before
    pipe(MORE + b"1 1:1\n")
    assert add_again(store, ["-"], batch="tuesday").manifest.n_rows == 14


def test_weights_are_part_of_the_input(tmp_path, monday):
    (tmp_path / "w7").write_text("1\n" * 7)
    (tmp_path / "w").write_text("1\n2\n3\n")
    store = make_store(tmp_path, weights=str(tmp_path / "w7"))
    how = {"batch": "monday", "weights": str(tmp_path / "w")}
    store = add_again(store, [monday], **how)
    unchanged(store, [monday], "monday", **how)
    (tmp_path / "w").write_text("1\n2\n4\n")
    refused(MismatchError, 5, add_again, store, [monday], **how, match="not of this input")


def test_split_names_its_batch(tmp_path, monday):
    (tmp_path / "rows").write_bytes(TEXT + b"1 x:1\n")
    text = small_text_options(on_error="skip")
    store = split([tmp_path / "rows"], tmp_path / "s", SplitOptions(text=text, batch="sunday"))
    assert [batch["name"] for batch in store.manifest.batches] == ["sunday"]
    assert {block.batch for block in store.manifest.blocks} == {"sunday"}
    assert (store.folder / "skipped-sunday.txt").exists()
    unchanged(store, [tmp_path / "rows"], "sunday", batch="sunday", on_error="skip")
    store = add_again(store, [monday])
    assert [batch["name"] for batch in store.manifest.batches] == ["sunday", "b2"]
    store = remove(store, ["sunday"])
    assert [batch["name"] for batch in store.manifest.batches] == ["b2"]


def test_a_batch_needs_a_plain_name():
    with pytest.raises(UsageError, match="batch"):
        SplitOptions(batch="../up")


def test_what_is_gone_need_not_be_removed(store, monday):
    store = add_again(store, [monday], batch="monday")
    before = tree(store.folder)
    for names in ({"batches": ["sunday"]}, {"blocks": [77, "b00000099.blk"]}):
        assert remove(store, **names, missing_ok=True).manifest == store.manifest
        assert tree(store.folder) == before
        refused(UsageError, 2, remove, store, **names)
    left = remove(store, ["sunday", "monday"], missing_ok=True)
    assert [batch["name"] for batch in left.manifest.batches] == ["b1"]
    assert remove(store, ["sunday", "monday"], missing_ok=True).manifest == left.manifest


def test_what_cannot_be_a_name_is_refused_all_the_same(store):
    refused(UsageError, 2, remove, store, blocks=["x"], missing_ok=True)
    refused(UsageError, 2, remove, store, missing_ok=True, match="nothing is named")


def test_rows_are_those_that_were_added_once(store, monday):
    for _ in range(3):
        store = add_again(store, [monday], batch="monday")
    assert store.manifest.n_rows == 10
    assert np.sum([block.rows for block in store.manifest.blocks]) == 10
