"""Labels come back as they were given, names of features are kept, rows come back as CSR."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, vstack

from blocklinear import (
    BlockStore,
    LinearModel,
    StoreWriter,
    TrainOptions,
    cross_validate,
    train,
    train_grid,
)
from blocklinear.batches.labels import OWN, LabelCoder
from blocklinear.classes import as_given, from_json, to_json
from blocklinear.errors import DamagedError, InputError, MismatchError, UsageError
from blocklinear.events import Warned
from blocklinear.ingest.add import add
from blocklinear.ingest.compact import compact
from blocklinear.model.predict import predict_stream
from blocklinear.names import pack, unpack
from blocklinear.store.changes import remove
from blocklinear.training.garbage import collect_garbage

from .rows import append, as_text, make_options, make_rows, split_text

LARGE = [10**30, -(2**63), 2**64 - 1, 2**53, 7]
Y_KINDS = {
    "text": ["spam", "ham", "eggs and ham", "x", "Ünïcode 🥚"],
    "integers": LARGE,
    "int64": [2**63 - 1, -(2**63), 2**53 + 1, 5, 6],
    "uint64": [2**64 - 1, 2**63, 2**53 + 1, 5, 6],
    "numbers": [3.0, -1.0, 7.0, 0.0, 2.0],
}


def y_of(kind, codes):
    y = [Y_KINDS[kind][k] for k in codes]
    return np.array(y, kind) if kind in ("int64", "uint64") else y


def rows_of(n_classes=5, n=300):
    """Rows whose class can be told from their features."""
    X, _ = make_rows(n_rows=n, n_columns=20)
    codes = np.arange(n) % n_classes
    dense = np.round(np.clip(X.toarray(), -1, 1), 3) / 10
    dense[np.arange(n), codes] += 1
    return csr_array(dense), codes


TRAIN = TrainOptions(solver=1, gap=1e-3, memory_bytes=256 << 20, threads=2)


@pytest.mark.parametrize("kind", Y_KINDS)
@pytest.mark.parametrize("n_classes", [2, 5])
def test_labels_come_back_as_they_were_given(tmp_path, kind, n_classes):
    X, codes = rows_of(n_classes)
    store = append(tmp_path, [(X, y_of(kind, codes))], make_options())
    assert store.verify().faults == []
    found = [label["label"] for label in store.describe()["labels"]]
    assert found == Y_KINDS[kind][:n_classes]
    model = train(store, TRAIN)
    model.save(tmp_path / "model")
    model = LinearModel.load(tmp_path / "model")
    predicted = model.predict(X)
    assert predicted.tolist() == [Y_KINDS[kind][k] for k in codes]
    if kind in ("int64", "uint64"):
        assert predicted.dtype == kind
    assert sorted(model.describe()["labels"], key=str) == sorted(Y_KINDS[kind][:n_classes], key=str)
    json.dumps(model.describe())
    for _, y, _ in store.iter_csr():
        assert sorted(y.tolist(), key=str) == sorted(y_of("text", []) or list(y), key=str)
    (predictions,) = [predict_text(tmp_path, model, X[:5])]
    assert predictions == [str(Y_KINDS[kind][k]).removesuffix(".0") for k in codes[:5]]


def predict_text(folder, model, X):
    (folder / "rows.svm").write_text(as_text(X, [0] * X.shape[0]))
    predict_stream(model, [str(folder / "rows.svm")], folder / "out")
    return (folder / "out").read_text("utf-8").splitlines()


def test_text_is_numbered_in_the_order_it_appears(tmp_path):
    X, codes = rows_of(3)
    store = append(tmp_path, [(X, y_of("text", codes))], make_options())
    assert store.manifest.classes == {"0": "spam", "1": "ham", "2": "eggs and ham"}
    assert store.manifest.format == 7
    summary = store.summary()
    assert "labels: spam (100 rows), ham (100 rows), eggs and ham (100 rows)" in summary
    assert "in LIBSVM and LIBLINEAR text, label 0 is spam, 1 is ham, 2 is eggs and ham" in summary
    as_numbers = append(tmp_path, [(X, codes)], make_options(), "numbers")
    assert [b.envelope_sha256 for b in as_numbers.manifest.blocks] == [
        b.envelope_sha256 for b in store.manifest.blocks
    ]
    assert as_numbers.manifest.format == 3


def test_further_batches_know_the_labels(tmp_path):
    X, codes = rows_of(3)
    store = append(tmp_path, [(X, y_of("text", codes))], make_options())
    heard = []
    with StoreWriter.add_to(store, listener=heard.append) as writer:
        writer.append(X[:2], ["ham", "new"])
    assert writer.store.manifest.given[3.0] == "new"
    assert Warned("labels that the store did not have: new") in heard
    with (
        pytest.raises(InputError, match="is a number, and those before were text"),
        StoreWriter.add_to(store) as writer,
    ):
        writer.append(X[:1], [1])
    (tmp_path / "known.svm").write_text("3 1:1\n0 2:1\n")
    (tmp_path / "other.svm").write_text("3 1:1\n7 2:1\n")
    store = add(store, [tmp_path / "known.svm"])
    with pytest.raises(MismatchError, match="label 7 is none of the store, whose labels are text"):
        add(store, [tmp_path / "other.svm"])
    assert store.manifest.n_rows == 304
    assert compact(store).manifest.given == store.manifest.given


def test_large_integers_may_follow_small_ones(tmp_path):
    X, codes = rows_of(2)
    store = append(tmp_path, [(X, codes)], make_options())
    assert store.manifest.format == 3
    with StoreWriter.add_to(store) as writer:
        writer.append(X[:2], [1, 2**60])
    store = writer.store
    assert (store.manifest.format, list(store.manifest.given.values())) == (7, [2**60])
    store = remove(store, ["b2"])
    collect_garbage(store)
    store = BlockStore.open(store.folder)
    assert (store.manifest.format, store.manifest.given) == (3, {})


def test_integers_and_more_labels_than_classes_are_no_values(tmp_path):
    X = csr_array(np.ones((10_001, 1)))
    y = [2**60, *range(10_000)]
    with pytest.raises(InputError, match="too many distinct labels"):
        append(tmp_path, [(X, y)], make_options())
    with pytest.raises(InputError, match="row 10000: there are more than 10000 labels, of text"):
        append(tmp_path, [(X, list(map(str, range(10_001))))], make_options())
    with pytest.raises(InputError, match="more than 10000 labels, of integers beyond"):
        append(tmp_path, [(X, [2**60 + k for k in range(10_001)])], make_options())


def test_text_is_nothing_to_regress_on(tmp_path):
    X, codes = rows_of(2)
    store = append(tmp_path, [(X, y_of("text", codes))], make_options())
    for by in (
        lambda: train(store, TrainOptions(solver=12)),
        lambda: train_grid(store, TrainOptions(solver=12, costs=(0.1, 1.0))),
        lambda: cross_validate(store, TrainOptions(solver=12), costs=[1.0]),
    ):
        with pytest.raises(InputError, match="no values to regress on"):
            by()


@given(st.lists(st.integers(-(2**70), 2**70) | st.integers(OWN - 9, 2**53 + 9), max_size=30))
@settings(max_examples=200)
def test_integers_of_any_size_come_back(labels):
    coder = LabelCoder({})
    codes = coder.codes(labels, len(labels))
    assert (np.abs(codes) < 2**53).all()
    assert len(set(codes.tolist())) == len(set(labels))
    assert as_given(codes, coder.classes).tolist() == labels
    assert from_json(json.loads(json.dumps(to_json(coder.classes)))) == coder.classes


@pytest.mark.parametrize(
    "content",
    [
        [], {"a": "b"}, {"1.0": "a"}, {"1": "a", "2": "a"}, {"1": "a", "2": 3}, {"1": 1.5},
        {"1": True}, {"1": None},
    ],
)  # fmt: skip
def test_damaged_classes_are_refused(content):
    with pytest.raises(ValueError, match=r"class|could not convert"):
        from_json(content)


# names


def named_store(folder, names=("age", "height in m", "Größe"), rows=60):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(np.round(rng.normal(size=(rows, len(names))), 2), columns=list(names))
    y = np.where(X.iloc[:, 0] > 0, "old", "young")
    return X, append(folder, [(X[:10], y[:10]), (X[10:], y[10:])], make_options())


def test_names_are_in_the_store_and_in_the_model(tmp_path):
    X, store = named_store(tmp_path)
    assert store.feature_names() == ("age", "height in m", "Größe")
    assert "the first 3 features have names" in store.summary()
    model = train(store, TRAIN)
    model.save(tmp_path / "model")
    assert LinearModel.load(tmp_path / "model").feature_names == ("age", "height in m", "Größe")
    model.save(tmp_path / "text", format="liblinear")
    assert LinearModel.load(tmp_path / "text").feature_names is None
    (one,) = train_grid(store, TrainOptions(costs=(1.0,), run="grid"))
    assert one.feature_names == model.feature_names
    with StoreWriter.add_to(store) as writer:
        writer.append(X, ["old"] * len(X))
    assert writer.store.feature_names() == model.feature_names
    with (
        pytest.raises(InputError, match="it lacks 'age'; it has besides 'weight'"),
        StoreWriter.add_to(store) as writer,
    ):
        writer.append(X.rename(columns={"age": "weight"}), ["old"] * len(X))
    remove(store, ["b2"])
    collect_garbage(store)
    assert BlockStore.open(store.folder).verify().faults == []
    assert BlockStore.open(store.folder).feature_names() == model.feature_names


def test_numbers_of_columns_are_no_names(tmp_path):
    pd = pytest.importorskip("pandas")
    for columns in ([0, 1], ["a", 1]):
        X = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=columns)
        assert append(tmp_path, [(X, [1, 2])], make_options()).feature_names() is None


def test_hashed_features_have_no_names(tmp_path):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=["a", "b"])
    options = make_options(hash_bits=5)
    store = append(tmp_path, [(X, [1, 2])], options)
    assert store.feature_names() is None
    assert "have names" not in store.summary()
    with pytest.raises(InputError, match="it lacks 'b'"):
        append(tmp_path, [(X, [1, 2]), (X[["a"]], [1, 2])], options, "other")
    model = train(store, TRAIN)
    assert model.feature_names is None
    with pytest.raises(InputError, match=r"X is DataFrame .* features of the model are hashes"):
        model.predict(X)


def test_damaged_names_are_found(tmp_path):
    _, store = named_store(tmp_path)
    path = store.folder / "features" / "n00000000.zst"
    data = path.read_bytes()
    for changed in (data[:-1], data[:-1] + b"x", b""):
        path.write_bytes(changed)
        assert "names" in store.verify().faults[0]
        with pytest.raises(DamagedError):
            train(store, TRAIN)
    path.unlink()
    with pytest.raises(DamagedError, match="it is missing"):
        store.feature_names()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DamagedError, match="is a link"):
        store.feature_names()


@given(st.lists(st.text(), max_size=9))
def test_packed_names_come_back(names):
    data, n_bytes = pack(names)
    assert unpack(data, n_bytes, len(names)) == tuple(names)
    for wrong in ((n_bytes + 1, len(names)), (n_bytes, len(names) + 1), (-1, 0), (1 << 60, 1)):
        with pytest.raises(ValueError, match=r"its names|it does not have"):
            unpack(data, *wrong)


def test_a_model_checks_classes_and_names():
    parts = {"weights": [[1.0]], "bias_weights": [0.0], "bias": -1, "labels": (1, 2)}
    with pytest.raises(UsageError, match="classes must be of labels"):
        LinearModel(**parts, solver="L2R_LR", classes={3.0: "a"})
    with pytest.raises(UsageError, match="2 feature_names for 1 feature"):
        LinearModel(**parts, solver="L2R_LR", feature_names=("a", "b"))


# CSR back


def rows_by_number(store):
    parts = list(store.iter_csr(rows=37))
    assert {part[0].shape[0] for part in parts[:-1]} <= {37}
    for part, *_ in parts:  # as scikit-learn's liblinear wants them
        assert part.indices.dtype == part.indptr.dtype == np.int32
    X, y = vstack([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    weights = [part[2] for part in parts]
    return X, y, None if weights[0] is None else np.concatenate(weights)


@pytest.mark.parametrize(
    "options",
    [
        {"order": "file"}, {"order": "file", "renumber": False}, {"order": "file", "index_base": 0},
        {"order": "file", "dtype": "float32", "normalize": "l2"},
    ],
)  # fmt: skip
def test_rows_come_back_as_they_were_given(tmp_path, options):
    X, y = make_rows(n_rows=500)
    X.data[:] = X.data.clip(-1e9, 1e9)
    weights = np.arange(500) / 4
    store = append(tmp_path, [(X, y, weights)], make_options(**options))
    found, labels, found_weights = rows_by_number(store)
    assert found.shape == X.shape
    assert (found != X).nnz == 0
    assert found.has_sorted_indices
    assert (labels.tolist(), found_weights.tolist()) == (y.tolist(), weights.tolist())


def test_rows_dealt_at_random_make_the_same_store_again(tmp_path):
    X, y = make_rows(n_rows=500)
    store = split_text(tmp_path, as_text(X, y), make_options())
    found, labels, weights = rows_by_number(store)
    assert weights is None
    assert sorted(map(tuple, np.column_stack([labels, found.toarray()]).tolist())) == sorted(
        map(tuple, np.column_stack([y, X.toarray()]).tolist())
    )
    again = append(tmp_path, store_batches(store), make_options(), "again")
    assert again.manifest.nnz == store.manifest.nnz


def test_few_rows_at_a_time_copy_each_row_of_a_block_once(tmp_path, monkeypatch):
    store = append(tmp_path, [make_rows(n_rows=500)], make_options(order="file"))
    copied, slices = [], csr_array.__getitem__

    def counting(X, part):
        found = slices(X, part)
        copied.append(found.shape[0])
        return found

    monkeypatch.setattr(csr_array, "__getitem__", counting)
    assert [len(y) for _, y, _ in store.iter_csr(rows=9)] == [9] * 55 + [5]
    assert sum(copied) == 500


def store_batches(store):
    return [(X, y) for X, y, _ in store.iter_csr()]


def test_hashes_come_back_as_columns(tmp_path):
    X, y = make_rows(n_rows=100)
    store = append(tmp_path, [(X, y)], make_options(hash_bits=5))
    ((found, _, _),) = store.iter_csr()
    assert found.shape == (100, 32)


@pytest.mark.parametrize("rows", [0, -1, 1.5, "1", True])
def test_rows_at_a_time_are_a_number(tmp_path, rows):
    store = append(tmp_path, [make_rows(n_rows=3)], make_options())
    with pytest.raises(UsageError, match="but must be an integer, at least 1"):
        next(store.iter_csr(rows))


@pytest.mark.parametrize("first", [["spam", "ham"], [2**60, 3], [3, 2**60]], ids=str)
def test_the_larger_label_is_the_positive_one(tmp_path, first):
    """Whichever comes first, and also where classes have other numbers than they are."""
    X, codes = rows_of(2)
    y = [first[k] for k in codes]
    store = append(tmp_path, [(X, y)], make_options())
    evaluation = train(store, TRAIN).evaluate(X, y)
    assert evaluation.confusion.as_dict()["positive"] == max(first)
    assert [curve.name for curve in evaluation.roc()] == [str(max(first))]
    found = cross_validate(store, TRAIN, n_folds=2, costs=[1.0])
    assert found.report.as_dict()["positive"] == max(first)
    assert f"positive class {max(first)}\n" in found.report.table()
    labels = [own["label"] for own in store.describe()["labels"]]
    assert [*map(type, labels)] == [*map(type, first)]
