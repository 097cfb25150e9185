import io

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from blocklinear.errors import DamagedError, UsageError
from blocklinear.model import liblinear
from blocklinear.model.linear import LinearModel
from blocklinear.solver_types import SOLVERS_BY_NAME

BINARY = b"solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias 1\nw\n0.5 \n-2 \n0 \n"


@pytest.fixture
def load(tmp_path):
    """Load a model from its text."""

    def load_text(text):
        (tmp_path / "m").write_bytes(text)
        return LinearModel.load(tmp_path / "m")

    return load_text


def written(model):
    stream = io.BytesIO()
    liblinear.write(model, stream)
    return stream.getvalue()


def test_the_text_to_the_byte(make_model):
    model = make_model(
        n_features=2,
        labels=(3.0, -1.0, 2.0),
        solver="MCSVM_CS",
        weights=[[0.1, 0.0, 1.0], [-1.5, 1e-300, 1e22]],
        bias_weights=[1.0, 2.0, 3.0],
        bias=0.5,
    )
    assert written(model) == (
        b"solver_type MCSVM_CS\nnr_class 3\nlabel 3 -1 2\nnr_feature 2\nbias 0.5\nw\n"
        b"0.10000000000000001 0 1 \n-1.5 1e-300 1e+22 \n1 2 3 \n"
    )


def test_no_bias_no_bias_row(make_model):
    text = written(make_model(n_features=1, weights=[[2.0]], bias=-0.25))
    assert text.endswith(b"label 1 -1\nnr_feature 1\nbias -1\nw\n2 \n")


def test_a_bias_of_zero_has_its_row(make_model, load):
    model = make_model(n_features=1, bias=0.0, weights=[[2.0]], bias_weights=[3.0])
    assert written(model).endswith(b"bias 0\nw\n2 \n3 \n")
    assert load(written(model)).intercept.tolist() == [0.0]


def test_regression_has_no_labels(make_model):
    text = written(make_model(labels=(), solver="L2R_L1LOSS_SVR_DUAL", n_features=0))
    assert text == b"solver_type L2R_L1LOSS_SVR_DUAL\nnr_class 2\nnr_feature 0\nbias -1\nw\n"


@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    data=st.data(), n_features=st.integers(0, 20), solver=st.sampled_from(sorted(SOLVERS_BY_NAME))
)
def test_round_trip_to_the_bit(load, same, data, n_features, solver):
    n_labels = data.draw(st.integers(1, 4)) if SOLVERS_BY_NAME[solver].number < 11 else 0
    columns = max(1, n_labels) if n_labels != 2 or solver == "MCSVM_CS" else 1
    number = st.floats(allow_nan=False, allow_infinity=False)
    model = LinearModel(
        weights=data.draw(arrays(np.float64, (n_features, columns), elements=number)),
        bias_weights=data.draw(arrays(np.float64, columns, elements=number)),
        bias=data.draw(st.floats(0, 1e6)),
        labels=data.draw(
            st.lists(
                st.integers(-(2**31), 2**31 - 1), min_size=n_labels, max_size=n_labels, unique=True
            )
        ),
        solver=solver,
        rho=data.draw(number) if solver == "ONECLASS_SVM" else 0.0,
    )
    assert same(load(written(model)), model)


@pytest.mark.parametrize("step", [1, 5, 24, 25, 26, 1000])
def test_numbers_across_pieces(make_model, load, same, monkeypatch, step):
    monkeypatch.setattr(liblinear, "_READ_BYTES", step)
    monkeypatch.setattr(liblinear, "_NUMBERS_PER_WRITE", step)
    model = make_model(n_features=40, labels=(1.0, 2.0, 3.0), bias=1.0)
    assert same(load(written(model)), model)


@pytest.mark.parametrize("value", [0.1, 1e-300, 1e300], ids=str)
def test_a_large_model_has_the_same_text(make_model, monkeypatch, value):
    """Compiled code writes it, but for pieces with numbers that are out of its reach."""
    monkeypatch.setattr(liblinear, "_NUMBERS_PER_WRITE", 30)
    weights = np.random.default_rng(1).normal(size=(40, 3))
    weights[25, 1] = value
    model = make_model(n_features=40, labels=(1.0, 2.0, 3.0), weights=weights, bias=1.0)
    expected = written(model)
    monkeypatch.setattr(liblinear, "LARGE", 120)
    assert written(model) == expected
    model.weights.flags.writeable = False
    assert written(model) == expected


def test_metadata_is_not_kept(make_model, load, same):
    model = make_model(metadata={"C": 1.0})
    assert same(load(written(model)), model, metadata=False)


@pytest.mark.parametrize("label", [1.5, 2.0**31, -(2.0**31) - 1])
def test_labels_that_are_no_c_int_cannot_be_written(make_model, tmp_path, label):
    with pytest.raises(UsageError, match="32-bit"):
        make_model(labels=(1.0, label)).save(tmp_path / "m", format="liblinear")
    assert not (tmp_path / "m").exists()


def test_features_from_zero_cannot_be_written(make_model, tmp_path):
    with pytest.raises(UsageError, match="numbered from 0"):
        make_model(index_base=0).save(tmp_path / "m", format="liblinear")


@pytest.mark.parametrize(
    "text",
    [
        BINARY.replace(b"\n", b"\r\n"),
        BINARY.replace(b"\n", b" "),
        BINARY.rstrip(),
        b"\n\n" + BINARY,
        b"bias 1 nr_feature 2\tnr_class 2 label\n1\n-1 solver_type L2R_LR w .5 -2e0 +0",
    ],
)
def test_any_blanks_and_any_order(load, same, text):
    assert same(load(text), load(BINARY))


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        (b"nr_feature 2", b"nr_feature -1", 4, "nr_feature is -1"),
        (b"nr_feature 2", b"nr_feature 1000000000", 6, "too short"),
        (b"nr_feature 2", b"nr_feature 99999999999", 4, "32 bits"),
        (b"nr_feature 2", b"nr_feature 2.5", 4, "32 bits"),
        (b"nr_feature 2", b"nr_feature", 5, "'bias'"),
        (b"nr_feature 2\n", b"", 5, "w comes before nr_feature"),
        (b"nr_feature 2", b"nr_feature 3", 10, "3 of 4"),
        (b"nr_feature 2", b"nr_feature 1", 9, "goes on"),
        (b"nr_class 2", b"nr_class 0", 2, "nr_class is 0"),
        (b"nr_class 2", b"nr_class 3", 4, "'nr_feature'"),
        (b"nr_class 2", b"nr_class 2147483647", 4, "'nr_feature'"),
        (b"nr_class 2\n", b"", 2, "label comes before nr_class"),
        (b"label 1 -1", b"label 1", 4, "'nr_feature'"),
        (b"label 1 -1", b"label 1 1.5", 3, "'1.5'"),
        (b"bias 1", b"bias nan", 5, "'nan'"),
        (b"bias 1", b"bias x", 5, "'x'"),
        (b"bias 1", b"bios 1", 5, "'bios'"),
        (b"0.5 ", b"nan ", 7, "'nan'"),
        (b"-2 ", b"1e400 ", 8, "'1e400'"),
        (b"-2 ", b"1_0 ", 8, "'1_0'"),
        (b"-2 ", b"x\xff ", 8, "x"),
        (b"-2 \n0 \n", b"-2", 8, "2 of 3"),
        (b"w\n0.5 \n-2 \n0 \n", b"", 5, "w is missing"),
    ],
)
def test_a_fault_is_named_with_its_line(load, tmp_path, old, new, line, problem):
    assert old in BINARY
    with pytest.raises(DamagedError) as caught:
        load(BINARY.replace(old, new))
    first = str(caught.value).splitlines()[0]
    assert first.startswith(f"{tmp_path}/m:{line}: ")
    assert problem in first


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"solver_type L2R_LR", b"solver_type SVM"),
        (b"label 1 -1", b"label 1 1"),
        (b"label 1 -1\n", b""),
        (b"solver_type L2R_LR", b"solver_type L2R_L2LOSS_SVR"),
        (b"solver_type L2R_LR\nnr_class 2", b"nr_class 2\nsolver_type MCSVM_CS"),
        (b"0.5 ", b"1" * 100_000),
    ],
)
def test_other_faults(load, old, new):
    with pytest.raises(DamagedError):
        load(BINARY.replace(old, new))


def test_every_truncation_of_the_text_is_noticed_or_whole(load, same):
    model = load(BINARY)
    for length in range(len(BINARY)):
        try:
            loaded = load(BINARY[:length])
        except DamagedError:
            continue
        assert same(loaded, model), length


def test_an_endless_token_is_not_swallowed(load, monkeypatch):
    monkeypatch.setattr(liblinear, "_READ_BYTES", 500)
    with pytest.raises(DamagedError, match="is not a number"):
        load(BINARY.replace(b"0.5 ", b"1" * 10_000))
    with pytest.raises(DamagedError, match="is missing"):
        load(b"bias " + b"1" * 10_000)
