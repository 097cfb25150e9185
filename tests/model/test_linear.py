import os
import stat
import sys
import warnings
from operator import attrgetter

import numpy as np
import programs
import pytest
from scipy import sparse
from scipy.sparse import csc_array, csr_array, csr_matrix

from blocklinear.errors import (
    BlocklinearWarning,
    DamagedError,
    InputError,
    StorageError,
    UsageError,
)
from blocklinear.model.files import recognise
from blocklinear.model.linear import LinearModel
from blocklinear.model.parameters import expected_columns
from blocklinear.solver_types import SOLVERS_BY_NAME


@pytest.mark.parametrize("make_rows", [np.asarray, list, csr_matrix, csr_array, csc_array])
def test_decision_values_of_any_kind_of_rows(make_model, make_rows):
    model = make_model(n_features=3, bias=2.0)
    dense = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
    expected = dense @ model.weights[:, 0] + 2.0 * model.bias_weights[0]
    decisions = model.decision_function(make_rows(dense))
    assert decisions.shape == (2,)
    np.testing.assert_allclose(decisions, expected)


@pytest.mark.parametrize("make_rows", [np.asarray, csr_array])
def test_decision_values_of_long_doubles_are_float64(make_model, make_rows):
    rows = make_rows(np.ones((2, 3), np.longdouble))
    assert make_model(n_features=3).decision_function(rows).dtype == np.float64


@pytest.mark.parametrize("make_rows", [np.asarray, csr_array])
@pytest.mark.parametrize("width", [0, 2, 3, 6])
def test_missing_columns_are_zero_and_further_ones_ignored(make_model, make_rows, width):
    model = make_model(n_features=3, labels=(1.0, 2.0, 3.0))
    rows = np.ones((2, width))
    known = min(width, 3)
    expected = np.tile(model.weights[:known].sum(axis=0), (2, 1))
    np.testing.assert_allclose(model.decision_function(make_rows(rows)), expected, atol=1e-15)


@pytest.mark.parametrize(
    "made_by",
    ["pandas.DataFrame", "polars.DataFrame", "pyarrow.table", "pyarrow.RecordBatch.from_pydict"],
)
def test_columns_of_a_frame_have_the_names_of_the_features(make_model, made_by):
    module, function = made_by.split(".", 1)
    make = attrgetter(function)(pytest.importorskip(module))
    values = {"a": [1.0, 2.0], "b": [3.0, 0.0], "c": [0.0, 5.0]}
    model = make_model(n_features=3, feature_names=("a", "b"))  # new ones may have none
    expected = model.decision_function(np.array(list(values.values())).T)
    np.testing.assert_array_equal(model.decision_function(make(values)), expected)
    swapped = make({name: values[name] for name in "bac"})
    with pytest.raises(InputError, match="column 0 of X is 'b', and feature 0 of the model is 'a'"):
        model.predict(swapped)
    assert len(make_model(n_features=3).predict(swapped)) == 2
    with pytest.raises(InputError, match="X has no column 'b', which is a feature of the model"):
        model.predict(make({"a": [1.0]}))
    with pytest.raises(InputError, match="column 'd' of X is no feature of the model"):
        model.predict(make(values | {"d": [1.0, 2.0]}))


@pytest.mark.parametrize(("value", "kind"), [(None, "NAType"), ("much", "str"), (10**400, "int")])
def test_a_value_that_is_no_number_is_named(make_model, value, kind):
    pd = pytest.importorskip("pandas")
    column = pd.array([1.0, None], "Float64") if value is None else [1.0, value]
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": pd.Series(column)})
    with pytest.raises(InputError, match=rf"of real numbers; at \[1, 1\] is {kind}\n"):
        make_model(n_features=2).predict(frame)


def test_columns_that_are_numbered_go_by_their_places(make_model):
    frame = pytest.importorskip("pandas").DataFrame([[1.0, 2.0]], columns=[7, 3])
    model = make_model(n_features=2, feature_names=("a", "b"))
    assert model.decision_function(frame) == model.decision_function([[1.0, 2.0]])


def test_one_dimension_is_refused(make_model):
    with pytest.raises(InputError, match="shape"):
        make_model().decision_function(np.ones(5))


def test_two_classes_zero_goes_to_the_second_label(make_model):
    model = make_model(n_features=1, labels=(7.0, 2.0), weights=[[1.0]])
    assert model.predict([[1.0], [0.0], [-1.0]]).tolist() == [7.0, 2.0, 2.0]


def test_first_of_equal_classes_wins(make_model):
    model = make_model(n_features=1, labels=(3.0, 1.0, 2.0), weights=[[0.0, 1.0, 1.0]])
    assert model.predict([[1.0], [-1.0], [0.0]]).tolist() == [1.0, 3.0, 3.0]


def test_crammer_singer_of_two_classes_goes_by_its_first_column(make_model):
    model = make_model(n_features=1, labels=(1.0, 2.0), solver="MCSVM_CS", weights=[[1.0, 3.0]])
    assert model.decision_function([[1.0]]).shape == (1, 2)
    assert model.predict([[1.0], [-1.0]]).tolist() == [1.0, 2.0]


def test_one_class_of_a_single_label(make_model):
    assert make_model(labels=(4.0,)).predict(np.zeros((2, 5))).tolist() == [4.0, 4.0]


def test_regression_and_one_class(make_model):
    regression = make_model(labels=(), solver="L2R_L2LOSS_SVR", n_features=1, weights=[[0.5]])
    assert regression.predict([[3.0]]).tolist() == [1.5]
    fields = {"n_features": 1, "weights": [[1.0]], "rho": 2.0}
    one_class = make_model(labels=(), solver="ONECLASS_SVM", **fields)
    assert one_class.predict([[3.0], [2.0]]).tolist() == [1.0, -1.0]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"solver": "SVM"}, "solver"),
        ({"labels": ()}, "0 labels"),
        ({"labels": (1.0, 1.0)}, "differ"),
        ({"labels": (1.0, float("nan"))}, "finite"),
        ({"labels": (1.0, 2.0, 3.0)}, "columns"),
        ({"solver": "L2R_L2LOSS_SVR"}, "2 labels"),
        ({"solver": "MCSVM_CS"}, "columns"),
        ({"weights": np.zeros(3)}, "shape"),
        ({"weights": np.array([[np.nan]])}, "finite"),
        ({"weights": np.array([[-np.inf]])}, "finite"),
        ({"bias_weights": np.zeros(2)}, "columns"),
        ({"bias_weights": np.ones(1)}, "bias -1 means none"),
        ({"bias": float("inf")}, "finite"),
        ({"index_base": 2}, "index_base"),
        ({"rho": 1.0}, "rho"),
        ({"metadata": {"a": object()}}, "metadata"),
        ({"metadata": {"a": {1: 2}}}, "metadata"),
    ],
)
def test_parts_that_do_not_fit_are_refused(fields, problem):
    parts = {
        "weights": np.ones((2, 1)),
        "bias_weights": np.zeros(1),
        "bias": -1,
        "labels": (1, -1),
        "solver": "L2R_LR",
    }
    with pytest.raises(UsageError, match=problem):
        LinearModel(**(parts | fields))


@pytest.mark.parametrize("solver", SOLVERS_BY_NAME)
def test_every_solver_makes_a_model(make_model, solver):
    labels = (1.0, 2.0) if SOLVERS_BY_NAME[solver].number < 11 else ()
    model = make_model(labels=labels, solver=solver)
    assert model.n_columns == expected_columns(solver, len(labels))
    assert f"(-s {SOLVERS_BY_NAME[solver].number})" in model.summary()


def test_metadata_is_what_json_gives_back(make_model):
    given = {"C": np.float64(0.5), "n": np.int64(3), "t": (1, 2), "gap": float("inf"), "x": None}
    model = make_model(metadata=given)
    assert model.metadata == {"C": 0.5, "n": 3, "t": [1, 2], "gap": None, "x": None}


def test_summary(make_model):
    model = make_model(
        n_features=2,
        weights=[[0.0], [1.0]],
        bias=1,
        metadata={"C": 4.0, "certificate": {"gap": 0.00087}, "memory_bytes": 3 << 29},
    )
    assert model.summary().splitlines() == [
        "solver           L2R_L1LOSS_SVC_DUAL (-s 3)",
        "classes          2: 1 -1",
        "features         2 (numbered from 1)",
        "nonzero weights  1 of 2",
        "bias             1",
        "C                4",
        "certified gap    0.00087",
        "memory budget    1536M",
    ]


@pytest.mark.parametrize("format", ["native", "liblinear"])
def test_load_tells_formats_apart(make_model, same, tmp_path, format):
    model = make_model(bias=1.0)
    model.save(tmp_path / "m", format=format)
    assert recognise(tmp_path / "m") == format
    assert same(LinearModel.load(tmp_path / "m"), model)


@pytest.mark.parametrize("format", ["native", "liblinear"])
def test_save_replaces_models_and_empty_files_and_nothing_else(make_model, tmp_path, format):
    target = tmp_path / "m"
    target.touch()
    model = make_model()
    for earlier in ("native", "liblinear"):
        model.save(target, format=format)
        model.save(target, format=earlier)
    target.write_text("1 1:1\n")
    with pytest.raises(UsageError, match="not a model"):
        model.save(target, format=format)
    assert target.read_text() == "1 1:1\n"
    with pytest.raises(UsageError, match="regular"):
        model.save(tmp_path, format=format)
    model.save("/dev/null", format=format)
    assert stat.S_ISCHR(os.lstat("/dev/null").st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m"]


@pytest.mark.parametrize(
    ("lost", "word"),
    [({"metadata": {"normalize": "l2"}}, "normalised"), ({"classes": {1.0: "spam"}}, "spam")],
)
def test_save_warns_of_what_liblinear_cannot_keep(make_model, tmp_path, lost, word):
    model = make_model(**lost)
    with pytest.warns(BlocklinearWarning, match=word) as caught:
        model.save(tmp_path / "m", format="liblinear")
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings(action="error"):
        model.save(tmp_path / "m")


def test_save_in_an_unknown_format(make_model, tmp_path):
    with pytest.raises(UsageError, match="pickle"):
        make_model().save(tmp_path / "m", format="pickle")


@pytest.mark.parametrize("content", [b"", b"PK", b"\x80\x04N.", b"1 1:1\n", b"\x93NUMPY", b"label"])
def test_load_refuses_other_files(tmp_path, content):
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(DamagedError, match="not a model"):
        LinearModel.load(tmp_path / "m")


def test_load_of_nothing(tmp_path):
    with pytest.raises(StorageError, match="missing"):
        LinearModel.load(tmp_path / "missing")
    with pytest.raises(StorageError):
        LinearModel.load(tmp_path)


def test_an_empty_name_is_refused(make_model):
    """The message began with a colon."""
    with pytest.raises(UsageError, match=r"^the name of the file to write is empty"):
        make_model().save("")
    with pytest.raises(StorageError, match=r"^'': read failed"):
        LinearModel.load("")


def test_load_waits_for_nobody(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(StorageError, match="is not a regular file"):
            LinearModel.load(path)


def test_a_model_is_described_without_numba_and_scipy(make_model, tmp_path):
    make_model().save(tmp_path / "m")
    code = (
        "import sys; from blocklinear.model.linear import LinearModel\n"
        f"LinearModel.load({str(tmp_path / 'm')!r}).summary()\n"
        "print(sorted({'numba', 'scipy', 'sklearn'} & set(sys.modules)))"
    )
    done = programs.run([sys.executable, "-c", code], check=True)
    assert done.stdout == "[]\n"


def test_labels_that_no_float64_holds(make_model):
    with pytest.raises(UsageError, match="labels must be finite"):
        make_model(labels=(10**400, 1))
    assert str(make_model(labels=(-0.0, 1.0)).labels) == "(0.0, 1.0)"


def as_given(kind, X):
    """Rows as some caller may have them."""
    if kind in ("dense", "list", "float32"):
        return {"dense": X, "list": X.tolist(), "float32": X.astype(np.float32)}[kind]
    return getattr(sparse, kind)(X)


FORMS = ["dense", "list", "float32", "csr_matrix", "csr_array", "csc_matrix", "coo_array"]


@pytest.mark.parametrize("normalize", ["none", "l2"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rows_with_what_is_no_number_are_refused(make_model, form, value, normalize):
    """They had got the second label."""
    for labels in ((1.0, -1.0), (1.0, 2.0, 3.0)):
        model = make_model(labels=labels, metadata={"normalize": normalize})
        X = np.ones((4, 7))
        model.predict(as_given(form, X))
        for column in (2, 6):  # the model does not know the last one
            X[2, column] = value
            shown = "NaN" if np.isnan(value) else "inf"
            for ask in (model.predict, model.decision_function):
                with pytest.raises(
                    ValueError, match=f"X has {shown} in row 2, column {column}"
                ) as e:
                    ask(as_given(form, X))
                assert isinstance(e.value, InputError)
            X[2, column] = 1.0


def test_rows_that_are_masked_or_too_large_are_refused(make_model):
    model = make_model(n_features=2, weights=[[1.0], [2.0]])
    X = np.ma.masked_greater(np.array([[1.0, 2.0], [3.0, 9.0]]), 5.0)
    assert model.predict(X[:1]).shape == (1,)
    with pytest.raises(InputError, match="X has values that are masked"):
        model.predict(X)
    with pytest.raises(InputError, match="X is list, but must be"):
        model.predict([[10**400, 1]])
    objects = sparse.csr_array(np.eye(2))
    objects.data = objects.data.astype(object)
    with pytest.raises(InputError, match="X is csr_array of shape"):
        model.predict(objects)


@pytest.mark.parametrize("form", FORMS)
def test_decision_values_that_are_no_numbers_are_refused(make_model, form):
    model = make_model(n_features=2, weights=[[1e200], [-1e200]])
    X = np.array([[1.0, 0.0], [1e38, 1e38], [0.0, 1.0]])
    np.testing.assert_array_equal(model.predict(as_given(form, X[[0, 2]])), [1.0, -1.0])
    model = make_model(n_features=2, weights=[[1e300], [-1e300]])
    for column in (0, 1):  # inf and -inf too: they may be what NaN becomes in another order
        with pytest.raises(InputError, match="row 1: its decision value overflows"):
            model.predict(as_given(form, X))
        X[1, column] = 0.0


def hand_made(form, place):
    """Return a matrix of SciPy with an entry at a place that it does not have."""
    X = sparse.csr_array(np.eye(3)).asformat(form)
    (X.col if form == "coo" else X.indices)[-1] = place
    return X


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("place", [-1, 3, 1 << 20])
def test_places_that_a_matrix_does_not_have_are_refused(make_model, form, place):
    model = make_model(n_features=5)
    with pytest.raises(InputError, match=f"^{form}_array: .*\n.*make the matrix again"):
        model.decision_function(hand_made(form, place))
    whole = hand_made(form, 2)
    given = whole.data
    assert len(model.decision_function(whole)) == 3
    assert whole.data is given
