import dataclasses
import io
import itertools
import json

import numba
import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

N_VALUES = 2_000 if numba.config.DISABLE_JIT else 100_000


@pytest.fixture(scope="module")
def printed(svmtext):
    """A function that prints numbers as a program of bench/ does, a row each."""

    def call(values):
        n = len(values)
        out, lengths = np.zeros(svmtext.rows_capacity(n, n), np.uint8), np.zeros(n, np.int64)
        size = svmtext.put_rows(
            np.ones(n, np.int64), False, np.arange(n + 1), np.ones(n, np.int32), values,
            np.arange(n), svmtext.POWERS_OF_TEN, out, lengths,
        )  # fmt: skip
        lines = out[:size].tobytes().decode().splitlines(keepends=True)
        assert list(map(len, lines)) == lengths.tolist()
        return [line.removeprefix("1 1:").removesuffix("\n") for line in lines]

    return call


def numbers(kind: str) -> np.ndarray:
    random = np.random.default_rng(5)
    n = N_VALUES
    match kind:
        case "any size":
            values = random.standard_normal(n) * 10.0 ** random.uniform(-15, 21, n)
        case "typical":
            values = random.standard_normal(n) * 0.05
        case "exact ties":
            values = random.integers(0, 10**8, n) / 2.0 ** random.integers(0, 12, n)
        case "near ties":
            values = (random.integers(10**5, 10**6, n) + 0.5) * 10.0 ** random.integers(-15, 14, n)
        case "just below powers of ten":
            below = 1 - 10.0 ** -random.integers(4, 17, n)
            values = 10.0 ** random.integers(-14, 21, n) * below
    values = np.concatenate([values, np.nextafter(values, 0), -np.nextafter(values, np.inf)])
    return values[(abs(values) >= 1e-16) & (abs(values) < 1e22)]


@pytest.mark.parametrize(
    "kind", ["any size", "typical", "exact ties", "near ties", "just below powers of ten"]
)
def test_numbers_are_printed_as_c_prints_them(printed, kind):
    values = numbers(kind)
    assert printed(values) == ["%.6g" % value for value in values.tolist()]  # noqa: UP031


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (-1.0, "-1"),
        (0.1, "0.1"),
        (120000.0, "120000"),
        (999999.5, "1e+06"),
        (999998.5, "999998"),
        (9.9999949e-05, "9.99999e-05"),
        (9.9999951e-05, "0.0001"),
        (1e-5, "1e-05"),
        (-1.5e-16, "-1.5e-16"),
        (1e21, "1e+21"),
    ],
)
def test_number(printed, value, text):
    assert printed(np.array([value])) == [text]


def test_rows_are_printed_in_the_order_asked(svmtext):
    out = np.zeros(svmtext.rows_capacity(3, 3), dtype=np.uint8)
    lengths = np.zeros(3, dtype=np.int64)
    size = svmtext.put_rows(
        np.array([1, -1, 12]), True, np.array([0, 2, 2, 3]), np.array([1, 30, 7], dtype=np.int32),
        np.array([0.5, 1.0, -2.25]), np.array([2, 0, 1]), svmtext.POWERS_OF_TEN, out, lengths,
    )  # fmt: skip
    assert out[:size].tobytes() == b"+12 7:-2.25\n+1 1:0.5 30:1\n-1\n"
    assert lengths.tolist() == [14, 3, 12]


@pytest.fixture(scope="module")
def write(generate, tmp_path_factory):
    """A function that runs the program and returns the bytes it wrote and its summary."""

    def call(capsys, *options):
        out = tmp_path_factory.mktemp("generated") / "out.svm"
        assert generate.main([options[0], str(out), *options[1:]]) == 0
        assert [path.name for path in out.parent.iterdir()] == ["out.svm"]
        return out.read_bytes(), json.loads(capsys.readouterr().out)

    return call


SHAPES = ["kddcup", "epsilon", "text"]


@pytest.mark.parametrize("shape", ["kddcup", "webspam", "epsilon", "text"])
def test_bytes_depend_on_the_seed_alone(shapes, generate, tmp_path, shape):
    made = shapes.make_shape(shape, seed=3)
    other = shapes.make_shape(shape, seed=4)
    small_chunks = dataclasses.replace(made, chunk_rows=3)
    out = tmp_path / "out.svm"

    texts = []
    for source, jobs in ((made, 1), (small_chunks, 1), (small_chunks, 4), (other, 1)):
        generate.generate(source, out, n_bytes=500_000, jobs=jobs)
        texts.append(out.read_bytes())
    assert texts[0] == texts[1] == texts[2] != texts[3]

    generate.generate(small_chunks, out, n_rows=texts[0].count(b"\n"))
    assert out.read_bytes() == texts[0]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_row_that_reaches_the_size_is_the_last(capsys, write, shape):
    text, summary = write(capsys, shape, "--bytes", "1M")
    lines = text.splitlines(keepends=True)
    assert len(text) == summary["bytes"] >= 1_000_000 > len(text) - len(lines[-1])
    assert summary["rows"] == len(lines)
    assert summary["nonzeros"] == text.count(b":")


@pytest.mark.parametrize("options", [(), ("--classes", "3")])
@pytest.mark.parametrize("shape", SHAPES)
def test_sorting_by_class_only_reorders(capsys, write, shape, options):
    plain, _ = write(capsys, shape, "--bytes", "2M", *options)
    by_class, _ = write(capsys, shape, "--bytes", "2M", "--sorted-by-class", *options)
    expected = sorted(plain.splitlines(), key=lambda line: int(line.split(b" ")[0]))
    assert by_class.splitlines() == expected
    labels = {line.split(b" ")[0] for line in expected}
    assert labels == ({b"1", b"2", b"3"} if options else {b"-1", b"+1"})


def parsed(text: bytes):
    X, y = load_svmlight_file(io.BytesIO(text), zero_based=False)
    assert (np.diff(X.indices)[np.setdiff1d(np.arange(X.nnz - 1), X.indptr[1:-1] - 1)] > 0).all()
    return X, y


def test_kddcup_rows(capsys, write):
    text, summary = write(capsys, "kddcup", "--rows", "2000")
    X, y = parsed(text)
    assert (X.data == 1).all()
    assert 28 < X.nnz / X.shape[0] < 32
    assert 25_000_000 < summary["max_index"] <= 30_000_000
    assert 0.4 < (y > 0).mean() < 0.6
    _, rows_of_feature = np.unique(X.indices, return_counts=True)
    assert rows_of_feature.max() > 1000
    assert (rows_of_feature == 1).mean() > 0.5


def test_webspam_rows(capsys, write):
    text, summary = write(capsys, "webspam", "--rows", "150")
    X, _ = parsed(text)
    assert 3400 < X.nnz / X.shape[0] < 4000
    assert 15_000_000 < summary["max_index"] <= 16_609_143
    assert X.data.min() > 0
    np.testing.assert_allclose(X.multiply(X).sum(axis=1), 1, atol=1e-5)


def test_epsilon_rows(capsys, write):
    X, _ = parsed(write(capsys, "epsilon", "--rows", "100")[0])
    assert (np.diff(X.indptr) == 2000).all()
    assert 0.49 < (X.data > 0).mean() < 0.51
    np.testing.assert_allclose(X.multiply(X).sum(axis=1), 1, atol=1e-5)


def test_labels_follow_the_planted_model_but_not_always(shapes):
    shape = shapes.make_shape("epsilon", seed=1, n_features=50)
    labels, _, _, values = shape.rows(0, 4000)
    followed = np.sign(values.reshape(4000, 50) @ shape.planted.weights[0]) == labels
    assert 0.85 < followed.mean() < 0.95


def test_text_rows(capsys, write):
    text, summary = write(capsys, "text", "--rows", "1000")
    X, y = parsed(text)
    assert 260 < X.nnz / X.shape[0] < 360
    assert 14 < len(text) / X.nnz < 18
    assert 2_400_000 < summary["max_index"] <= 2_500_000
    assert 0.45 < (y > 0).mean() < 0.55
    np.testing.assert_allclose(X.multiply(X).sum(axis=1), 1, atol=1e-5)
    _, rows_of_feature = np.unique(X.indices, return_counts=True)
    assert rows_of_feature.max() > 900
    assert (rows_of_feature == 1).mean() > 0.5


def test_some_pairs_of_words_are_frequent(shapes):
    shape = shapes.make_shape("text", seed=1, n_features=40_000, by_frequency=True)
    _, _, indices, _ = shape.rows(0, 1000)
    rows_of_pair = np.bincount(indices[indices > shape.n_words])
    assert rows_of_pair.max() > 500
    assert np.median(rows_of_pair[rows_of_pair > 0]) < 10


def test_words_tell_the_class_but_not_always(shapes):
    """A document has more of the words that lean to its class, whatever its label says."""
    shape = shapes.make_shape("text", seed=1, n_classes=3, n_features=4000)
    shape = dataclasses.replace(shape, leaning=20.0)
    labels, indptr, indices, _ = shape.rows(0, 3000)
    row = np.repeat(np.arange(3000), np.diff(indptr))
    counts = np.array([np.bincount(indices[labels[row] == c], minlength=4001) for c in (1, 2, 3)])
    found = np.array([np.log(1 + counts[:, indices[s:e]]).sum(axis=1).argmax() + 1
                      for s, e in itertools.pairwise(indptr)])  # fmt: skip
    assert 0.92 < (found == labels).mean() < 0.98  # one in twenty is flipped on purpose


@pytest.mark.parametrize("shape", ["kddcup", "text"])
def test_features_are_numbered_at_random_unless_asked(shapes, shape):
    n = 3001
    at_random = shapes.make_shape(shape, seed=1, n_features=n)
    by_frequency = dataclasses.replace(at_random, by_frequency=True)
    one, other = (np.bincount(made.rows(0, 300).indices, minlength=n + 1)[1:]
                  for made in (at_random, by_frequency))  # fmt: skip
    assert sorted(one) == sorted(other)  # the same rows, but for the numbers of their features
    frequent = np.flatnonzero(one >= np.sort(one)[-30])
    assert 0.3 < frequent.mean() / n < 0.7
    assert len(set(np.diff(frequent))) > 15
    assert np.median(np.flatnonzero(other >= np.sort(other)[-30])) < 30


@pytest.mark.parametrize("n", [1, 2, 3, 5, 64, 1000])
def test_the_numbers_are_a_permutation(shapes, n):
    assert sorted(shapes.kernels.scattered(k, n) for k in range(n)) == list(range(n))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["kddcup", "--rows", "1", "--classes", "1"], "--classes must be 2 or more, not 1"),
        (["kddcup", "--rows", "1", "--features", "9"], "--features must be 2000 to 2147483647"),
        (["text", "--rows", "1", "--features", "9"], "--features must be 1000 to 2147483647"),
        (["epsilon", "--rows", "1", "--by-frequency"], "are all as frequent"),
        (["kddcup", "--rows", "0"], "--rows must be at least 1, not 0"),
        (["kddcup", "--bytes", "much"], "'much' is not a size"),
        (["kddcup"], "one of the arguments --bytes --rows is required"),
    ],
)
def test_bad_options_are_refused(generate, capsys, tmp_path, options, message):
    out = str(tmp_path / "out.svm")
    try:
        status = generate.main([options[0], out, *options[1:]])
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "size"), [("7", 7), ("300M", 300_000_000), ("1.5g", 1_500_000_000), ("1GiB", 1 << 30)]
)
def test_sizes_of_files(generate, text, size):
    assert generate.parse_bytes(text) == size
