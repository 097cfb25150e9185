"""Where batches go: a new store, one that is replaced, one more batch of one that is there."""

import numpy as np
import pytest

from blocklinear import StoreWriter
from blocklinear.errors import BusyError, DamagedError, MismatchError, StorageError, UsageError
from blocklinear.events import SplitProgress, Warned
from blocklinear.ingest.add import add
from blocklinear.options import AddOptions, SplitOptions
from blocklinear.store.store import BlockStore

from .rows import append, as_text, blocks, files, make_options, make_rows, split_text

X2 = np.array([[1.0, 2.0], [3.0, 4.0]])
Y2 = [1, 2]


def test_a_name_that_is_taken_is_refused_before_work_begins(tmp_path):
    options = SplitOptions(text=make_options().text)
    store = append(tmp_path, [(X2, Y2)], options)
    with pytest.raises(MismatchError, match="exists"):
        StoreWriter(store.folder, options).__enter__()
    (tmp_path / "other").mkdir()
    with pytest.raises(MismatchError, match="is not a store"):
        StoreWriter(tmp_path / "other", make_options()).__enter__()
    with pytest.raises(StorageError, match="no such folder"):
        StoreWriter(tmp_path / "no" / "store", options).__enter__()


def test_a_store_that_is_replaced_stays_until_the_new_one_is_whole(tmp_path):
    old = append(tmp_path, [(X2, Y2)], make_options())
    with StoreWriter(old.folder, make_options()) as writer:
        writer.append(X2, [3, 4])
        assert BlockStore.open(old.folder).manifest.labels == [1.0, 2.0]
    assert BlockStore.open(old.folder).manifest.labels == [3.0, 4.0]
    with pytest.raises(ZeroDivisionError), StoreWriter(old.folder, make_options()) as writer:
        writer.append(X2, [1 // 0, 4])
    assert BlockStore.open(old.folder).manifest.labels == [3.0, 4.0]


def test_one_writer_at_a_time(tmp_path):
    with StoreWriter(tmp_path / "store", make_options()) as writer:
        with pytest.raises(BusyError):
            StoreWriter(tmp_path / "store", make_options()).__enter__()
        writer.append(X2, Y2)
    with StoreWriter.add_to(writer.store) as first:
        with pytest.raises(BusyError):
            StoreWriter.add_to(writer.store).__enter__()
        first.append(X2, Y2)
    assert first.store.manifest.n_rows == 4


def test_progress_and_warnings_are_told(tmp_path):
    heard = []
    with StoreWriter(tmp_path / "store", make_options(), heard.append) as writer:
        writer.append(X2, [1, 1], [0, 1])
        writer.append(X2, [1, 1], [0, 1])
    assert [event for event in heard if isinstance(event, SplitProgress)] == [
        SplitProgress(0, None, 2, 4), SplitProgress(0, None, 4, 8),
    ]  # fmt: skip
    assert [event.message for event in heard if isinstance(event, Warned)] == [
        "all rows have the one label 1",
        "2 rows have weight 0: stored, but not trained on",
    ]


@pytest.mark.parametrize(
    "options", [{}, {"hash_bits": 3}, {"index_base": 0}, {"dtype": "float32", "normalize": "l2"}]
)
def test_what_is_added_has_the_blocks_of_added_text(tmp_path, options):
    X, y = make_rows(n_rows=300)
    X.data[:] = X.data.clip(-1e9, 1e9)
    first, more = as_text(X[:200], y[:200]), as_text(X[200:], y[200:])
    shifted = X
    if options.get("index_base") == 0:
        shifted = np.column_stack([np.zeros(len(y)), X.toarray()])
    of_text = split_text(tmp_path, first, make_options(**options))
    (tmp_path / "more.svm").write_text(more)
    own = {"memory_bytes": 256 << 20, "threads": 2}
    how = AddOptions(type(make_options().text)(index_base="auto", **own))
    of_text = add(of_text, [tmp_path / "more.svm"], how)
    store = append(tmp_path, [(shifted[:200], y[:200])], make_options(**options))
    with StoreWriter.add_to(store, how) as writer:
        writer.append(shifted[200:250], y[200:250])
        writer.append(shifted[250:], y[250:])
    assert blocks(writer.store) == blocks(of_text)
    assert files(writer.store) == files(of_text)
    assert [b["name"] for b in writer.store.manifest.batches] == ["b1", "b2"]
    assert writer.store.verify().faults == []


def test_a_further_batch_has_the_name_asked_for(tmp_path):
    store = append(tmp_path, [(X2, Y2)], make_options())
    with StoreWriter.add_to(store.folder, AddOptions(batch="tuesday")) as writer:
        writer.append(X2, Y2)
    assert [b["name"] for b in writer.store.batches()] == ["b1", "tuesday"]
    with pytest.raises(UsageError, match="there is a batch tuesday already"):
        StoreWriter.add_to(store, AddOptions(batch="tuesday")).__enter__()
    assert "batch tuesday: 2 rows from Python (1 x array)" in writer.store.summary()


def test_weights_are_given_where_the_store_has_some(tmp_path):
    store = append(tmp_path, [(X2, Y2)], make_options())
    with (
        pytest.raises(MismatchError, match="the rows of the store have no weights"),
        StoreWriter.add_to(store) as writer,
    ):
        writer.append(X2, Y2, [1, 1])
    store = append(tmp_path, [(X2, Y2, [1, 2])], make_options())
    with (
        pytest.raises(MismatchError, match="the rows of the store have weights"),
        StoreWriter.add_to(store) as writer,
    ):
        writer.append(X2, Y2)
    with StoreWriter.add_to(store) as writer:
        writer.append(X2, Y2, [3, 4])
    assert writer.store.manifest.weights["total"] == 10


def test_text_follows_batches_and_batches_text(tmp_path):
    X, y = make_rows(n_rows=30)
    store = split_text(tmp_path, as_text(X, y), make_options())
    with StoreWriter.add_to(store) as writer:
        writer.append(X, y)
    (tmp_path / "more.svm").write_text(as_text(X, y) + "7 1:1\n")
    store = add(writer.store, [tmp_path / "more.svm"])
    assert store.manifest.n_rows == 91
    assert store.verify().faults == []


def test_there_must_be_a_store_to_add_to(tmp_path):
    with pytest.raises(DamagedError, match="not a store"):
        StoreWriter.add_to(tmp_path).__enter__()
    assert list(tmp_path.iterdir()) == []
