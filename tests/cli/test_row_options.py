"""Options of `split` that follow the data into the model, and on to prediction."""

import json

import numpy as np
import pytest

from blocklinear.model.linear import LinearModel

from .conftest import ROWS


@pytest.fixture
def made(cli, rows, tmp_path):
    """Split with some options, train, predict decision values; return them and the model."""

    def run(*options, text=rows, how=()):
        cli("split", text, tmp_path / "s", "-q", "--force", "--blocks", 3, *options)
        done = cli("train", tmp_path / "s", tmp_path / "m", "-q", "--threads", 2, "-B", 1)
        assert done.status == 0, done.err
        done = cli("predict", rows, tmp_path / "m", tmp_path / "out", "--decision", *how)
        assert done.status == 0, done.err
        return np.loadtxt(tmp_path / "out"), LinearModel.load(tmp_path / "m"), done

    return run


def dense():
    """The rows of the fixture, as the numbers of their text."""
    X = np.zeros((60, 7))
    for i, line in enumerate(ROWS.splitlines()):
        for entry in line.split()[1:]:
            index, value = entry.split(":")
            X[i, int(index)] += float(value)
    return X


def test_normalized_rows(made):
    decisions, model, _ = made("--normalize", "l2")
    assert model.normalize == model.metadata["normalize"] == "l2"
    X = dense()
    scaled = X / np.linalg.norm(X, axis=1, keepdims=True)
    expected = scaled[:, 1:] @ model.weights[:, 0] + model.bias_weights[0]
    np.testing.assert_allclose(decisions, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(model.decision_function(X[:, 1:]), expected, atol=1e-12)
    assert "divided by their Euclidean norm" in model.summary()
    assert made()[1].normalize == "none"


def test_a_normalized_store_is_a_store_of_normalized_rows(made, tmp_path):
    """Training on rows scaled when read, and on rows written scaled, gives the same bits."""
    _, model, _ = made("--normalize", "l2")
    X = dense()
    text, norms = [], np.sqrt((X**2).sum(axis=1))
    for line, row, norm in zip(ROWS.splitlines(), X, norms, strict=True):
        cells = [f"{j}:{row[j] / norm!r}" for j in range(7) if row[j]]
        text.append(
            " ".join([line.split()[0], *(c.replace("np.float64(", "").rstrip(")") for c in cells)])
        )
    (tmp_path / "scaled.svm").write_text("\n".join(text) + "\n")
    assert np.array_equal(made(text=tmp_path / "scaled.svm")[1].weights, model.weights)


def test_hashed_features(made):
    decisions, model, done = made("--hash-bits", 8, "--index-base", 0)
    assert (model.hash_bits, model.n_features, model.index_base) == (8, 256, 0)
    assert np.count_nonzero(model.weights) <= 6
    columns = [0, 0x910A2DEC89025CC1 >> 56, 151, 29, 110, 99]  # of the indices 0, 1, ...
    columns += [hash_of(6)]
    X = dense()
    expected = sum(X[:, j] * model.weights[columns[j], 0] for j in range(1, 7))
    np.testing.assert_allclose(decisions, expected + model.bias_weights[0], atol=1e-12)
    assert json.loads(json.dumps(model.describe()))["hash_bits"] == 8
    assert "hashed to 8 bits" in model.summary()
    assert "not know" not in done.err


def hash_of(index):
    mask, x = 2**64 - 1, index + 0x9E3779B97F4A7C15
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return (x ^ (x >> 31)) >> 56


def test_rows_to_predict_may_be_unsorted(made, cli, refused, rows, tmp_path):
    decisions, _, _ = made()
    shuffled = [" ".join([w[0], *reversed(w[1:])]) for w in map(str.split, ROWS.splitlines())]
    (tmp_path / "shuffled").write_text("\n".join(shuffled) + "\n")
    predict = ["predict", tmp_path / "shuffled", tmp_path / "m", tmp_path / "out", "--decision"]
    assert "--unsorted sort" in refused(3, *predict)
    assert cli(*predict, "--unsorted", "sort").status == 0
    assert np.array_equal(np.loadtxt(tmp_path / "out"), decisions)


@pytest.mark.parametrize(
    ("options", "word"),
    [(["--hash-bits", 4], "hash"), (["--index-base", 0], "numbered from 0")],
    ids=str,
)
def test_what_liblinear_cannot_tell_is_refused_before_training(
    cli, refused, rows, tmp_path, options, word
):
    cli("split", rows, tmp_path / "s", "-q", *options)
    train = ["train", tmp_path / "s", tmp_path / "m", "-q"]
    assert word in refused(2, *train, "--format", "liblinear")
    assert not (tmp_path / "s" / "runs").exists()
    assert not (tmp_path / "m").exists()
    assert cli(*train).status == 0
    assert word in refused(2, "convert", tmp_path / "m", tmp_path / "t", "--to", "liblinear")


def test_liblinear_does_not_normalize(cli, rows, tmp_path):
    warning = "warning: LIBLINEAR's format does not say that rows are normalized: predict such\n"
    cli("split", rows, tmp_path / "s", "-q", "--normalize", "l2")
    done = cli("train", tmp_path / "s", tmp_path / "m", "-q", "--format", "liblinear")
    assert (done.status, done.err) == (0, warning)
    assert cli("train", tmp_path / "s", tmp_path / "n", "-q").err == ""
    done = cli("convert", tmp_path / "n", tmp_path / "t", "--to", "liblinear")
    assert (done.status, done.err) == (0, warning)
    assert (tmp_path / "t").read_bytes() == (tmp_path / "m").read_bytes()


@pytest.mark.parametrize(
    ("flags", "word"),
    [(["--hash-bits", "32"], "hash-bits"), (["--hash-bits", "-1"], "hash-bits")],
    ids=str,
)
def test_values_out_of_range(refused, rows, tmp_path, flags, word):
    assert word in refused(2, "split", rows, tmp_path / "s", *flags)


def test_the_base_of_a_stream(refused, tmp_path):
    assert "known only at its end" in refused(
        2, "split", "-", tmp_path / "s", "--index-base", "auto"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "metadata",
    [{"hash_bits": 3}, {"hash_bits": "8"}, {"hash_bits": 40}, {"normalize": "max"}],
    ids=str,
)
def test_a_model_that_contradicts_itself(metadata):
    with pytest.raises(ValueError, match=next(iter(metadata)) + "|hashes"):
        LinearModel(
            weights=np.zeros((4, 1)), bias_weights=np.zeros(1), bias=-1.0, labels=(1.0, -1.0),
            solver="L2R_L1LOSS_SVC_DUAL", index_base=0, metadata=metadata,
        )  # fmt: skip


def test_sparse_and_dense_rows_are_normalized_alike(made):
    from scipy import sparse

    _, model, _ = made("--normalize", "l2")
    X = dense()[:, 1:]
    before = sparse.csr_matrix(X)
    decisions = model.decision_function(before)
    np.testing.assert_allclose(decisions, model.decision_function(X), atol=1e-12)
    assert np.array_equal(before.toarray(), X)
    np.testing.assert_array_equal(model.decision_function(np.zeros((1, 3))), model.bias_weights[:1])
