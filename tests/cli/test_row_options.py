"""Options of `split` that follow the data into the model, and on to prediction."""

import json
import shutil

import numpy as np
import pytest

from blocklinear.model.liblinear import not_kept
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
    warning = f"warning: {not_kept('l2', {})[0]}\n"
    assert "cannot record that rows are normalised" in warning
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


# text that is read on the way, by training


ODD = ROWS.replace("\n", " 9:1 8:2 8:3\n")
AS_READ = ("--unsorted", "sort", "--duplicates", "sum")


@pytest.mark.parametrize(
    ("text", "how"),
    [
        (ODD, AS_READ),
        (ROWS.replace(" 1:", " 0:"), ("--index-base", "0")),
        (ROWS.replace(" 1:", " 0:"), ("--index-base", "auto")),
        (ROWS.replace(" 1:", " qid:7 1:"), ("--ignore-qid",)),
    ],
    ids=["unsorted", "base", "auto", "qid"],
)
def test_advice_on_text_that_is_trained_on_can_be_followed(cli, refused, tmp_path, text, how):
    path, model = tmp_path / "odd.svm", tmp_path / "m"
    path.write_text(text)
    for command in (["train", path, model, "-q"], ["cv", path, "-q", "-v", 2, "-c", 1]):
        said = refused(3, *command)
        assert how[0] in said
        assert cli(*command, *how).status == 0
        shutil.rmtree(f"{path}.blocks")
    assert cli("split", path, tmp_path / "s", *how, "-q").status == 0
    assert cli("train", tmp_path / "s", tmp_path / "again", "-q").status == 0
    weights = [LinearModel.load(tmp_path / name).weights for name in ("m", "again")]
    assert weights[0].tobytes() == weights[1].tobytes()
    # made once with them, the store is used without
    assert cli("train", path, model, "-q", *how).status == 0
    assert cli("train", path, model, "-q").status == 0


@pytest.mark.parametrize("option", ["--eval", "--best-on"])
def test_advice_on_held_out_rows_can_be_followed(cli, refused, store, tmp_path, option):
    path, plain = tmp_path / "odd.svm", tmp_path / "plain.svm"
    path.write_text(ROWS.replace("\n", " 9:1 8:2 8:3\n").replace(" 1:", " qid:7 1:"))
    plain.write_text(ROWS.replace("\n", " 8:5 9:1\n"))
    results = []
    for held_out, how in ((plain, ()), (path, (*AS_READ, "--ignore-qid"))):
        command = ["train", store, tmp_path / "m", "-q", option, held_out]
        command += ["-c", "0.1,1"] if option == "--best-on" else ["--log", tmp_path / "log"]
        if how:
            assert "--ignore-qid" in refused(3, *command)
            assert "--unsorted sort" in refused(3, *command, "--ignore-qid")
            assert "--duplicates sum" in refused(3, *command, "--ignore-qid", *AS_READ[:2])
        done = cli(*command, *how)
        assert done.status == 0, done.err
        results.append(done.out)
    assert results[0] == results[1]


def test_held_out_rows_have_the_index_base_of_the_store(cli, refused, store, rows, tmp_path):
    zero = tmp_path / "zero.svm"
    zero.write_text(ROWS.replace(" 1:", " 0:"))
    assert cli("split", zero, tmp_path / "s0", "--index-base", 0, "-q").status == 0
    for option in ("--eval", "--best-on"):
        command = [option, zero, "-q", *(("-c", "1,2") if option == "--best-on" else ())]
        assert cli("train", tmp_path / "s0", tmp_path / "m", *command).status == 0
        said = refused(3, "train", store, tmp_path / "n", *command)
        assert "the store numbers features from 1" in said
    assert cli("train", store, tmp_path / "n", "-q").status == 0
    said = refused(3, "predict", zero, tmp_path / "n", tmp_path / "out")
    assert "the model numbers features from 1" in said
    assert "the store numbers features from 1" in refused(3, "add", store, zero, "-q")


def test_an_index_base_that_is_not_that_of_the_store(cli, refused, store, rows, tmp_path):
    for source in (store, rows):
        assert cli("train", source, tmp_path / "m", "-q", "--index-base", 1).status == 0
        assert cli("train", source, tmp_path / "m", "-q", "--index-base", "auto").status == 0
        said = refused(5, "train", source, tmp_path / "m", "-q", "--index-base", 0)
        assert "the index base of the store is 1, not 0" in said
        assert "split again with --index-base 0 --force" in said
    flags = ["--index-base", 0, "--force", "-q"]
    assert cli("split", rows, f"{rows}.blocks", *flags).status == 0
    assert cli("train", rows, tmp_path / "m", "-q", "--index-base", 0).status == 0


def test_too_many_features_of_text_that_is_trained_on(refused, tmp_path):
    path = tmp_path / "wide.svm"
    path.write_text("1 1:1\n-1 4000000000:1\n")
    said = refused(7, "train", path, tmp_path / "m", "-q", "--memory", "256M")
    assert "or split with --hash-bits, or split with --max-features 4000000000" in said
