"""What somebody meets who installs and imports the package."""

import io
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import blocklinear
from blocklinear import AddOptions, LinearModel, SplitOptions, TextOptions, TrainOptions
from blocklinear.errors import BlocklinearError, InputError, UsageError, WrongTypeError

ROOT = Path(__file__).parents[1]
ROWS = "".join(f"{1 if i % 2 else -1} 1:{i % 7} {2 + i % 3}:{(i * 5) % 11}\n" for i in range(24))
X = np.ones((3, 2))
CALLS = {
    "split": lambda store: blocklinear.split(X, "new"),
    "add": lambda store: blocklinear.add(store, X),
    "check": lambda store: blocklinear.check(X),
}
STORES = {
    "train": blocklinear.train,
    "train_grid": lambda store: blocklinear.train_grid(store, TrainOptions(costs=(1.0, 2.0))),
    "cross_validate": blocklinear.cross_validate,
    "add": lambda store: blocklinear.add(store, "rows.svm"),
    "remove": lambda store: blocklinear.remove(store, ["b1"]),
    "compact": blocklinear.compact,
    "collect_garbage": blocklinear.collect_garbage,
}


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text(ROWS)
    return path


@pytest.fixture
def store(rows, tmp_path):
    return blocklinear.split(rows, tmp_path / "store", SplitOptions(blocks=3))


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_dir_lists_the_public_names_and_no_others():
    assert sorted(dir(blocklinear)) == sorted([*blocklinear.__all__, "__version__"])
    for name in dir(blocklinear):
        assert getattr(blocklinear, name) is not None


def test_type_checkers_read_the_annotations():
    assert (Path(blocklinear.__file__).parent / "py.typed").is_file()


def test_metadata_says_where_it_runs(project):
    classifiers = project["classifiers"]
    assert "Operating System :: POSIX :: Linux" in classifiers
    assert "Typing :: Typed" in classifiers
    versions = [c.rpartition(" ")[2] for c in classifiers if "Python :: 3." in c]
    assert project["requires-python"] == f">={versions[0]}"


def test_numba_has_an_upper_bound(project):
    """Its internals are used: how it caches, and which overloads it has loaded."""
    bound = next(name for name in project["dependencies"] if name.startswith("numba"))
    assert ">=" in bound
    assert ",<" in bound


@pytest.mark.parametrize("as_text", [True, False])
def test_one_path_is_taken_as_well_as_a_list(rows, tmp_path, as_text):
    one = str(rows) if as_text else rows
    first = blocklinear.split(one, tmp_path / "one", SplitOptions(blocks=3))
    second = blocklinear.split([one], tmp_path / "list", SplitOptions(blocks=3))
    assert first.manifest.fingerprint == second.manifest.fingerprint
    assert blocklinear.check(one) == blocklinear.check([one])
    more = tmp_path / "more.svm"
    more.write_text("1 1:3\n")
    assert blocklinear.add(first, str(more) if as_text else more).manifest.n_rows == 25


@pytest.mark.parametrize("as_text", [True, False])
def test_a_store_may_be_given_as_its_path(store, as_text):
    path = str(store.folder) if as_text else store.folder
    weights = blocklinear.train(store).weights
    assert np.array_equal(blocklinear.train(path).weights, weights)
    grid = blocklinear.train_grid(path, TrainOptions(costs=(0.5, 2.0)))
    assert len(grid) == 2
    options = TrainOptions(max_outer=2)
    with pytest.warns(blocklinear.BlocklinearWarning, match="not converged after 2 outer"):
        compared = blocklinear.cross_validate(path, options, n_folds=2, costs=[1.0])
    assert len(compared.predicted) == 24


@pytest.mark.parametrize("name", CALLS)
def test_an_array_is_no_path_of_text(name, store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WrongTypeError, match=r"inputs is ndarray of shape \(3, 2\)") as caught:
        CALLS[name](store)
    assert "give a path or a list of paths" in str(caught.value)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, UsageError)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("wrong", [[3], ["rows.svm", None], None, 3])
def test_what_is_no_path_is_refused(wrong, tmp_path):
    with pytest.raises(WrongTypeError, match="must be the path of LIBSVM text"):
        blocklinear.split(wrong, tmp_path / "store")


@pytest.mark.parametrize("wrong", [b"rows.svm", io.BytesIO(b"1 1:1\n")])
def test_bytes_and_open_files_are_not_read_as_lists_of_paths(wrong, tmp_path):
    kind = type(wrong).__name__
    with pytest.raises(WrongTypeError, match=f"inputs is {kind}, but must be the path"):
        blocklinear.split(wrong, tmp_path / "store")


def test_no_inputs_are_called_so(tmp_path):
    with pytest.raises(UsageError, match="there are no inputs"):
        blocklinear.split([], tmp_path / "store")


def test_integers_of_numpy_are_integers(store):
    ((rows, _, _),) = store.iter_csr(np.int64(50))
    assert rows.shape[0] == store.manifest.n_rows
    assert len(blocklinear.train(store).top_weights(np.int32(1))) == 1


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("wrong", [X, None, 3])
def test_an_array_is_no_store(name, wrong):
    with pytest.raises(WrongTypeError, match=r"store is (ndarray|NoneType|int).*BlockStore") as no:
        STORES[name](wrong)
    assert 'blocklinear.split("rows.svm", "store")' in str(no.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda store: blocklinear.train(store, {"cost": 1.0}),
        lambda store: blocklinear.cross_validate(store, SplitOptions()),
        lambda store: blocklinear.train_grid(store, {"costs": (1.0, 2.0)}),
        lambda store: blocklinear.split("rows.svm", "new", TrainOptions()),
        lambda store: blocklinear.add(store, "rows.svm", SplitOptions()),
        lambda store: blocklinear.check("rows.svm", SplitOptions()),
    ],
)
def test_options_of_another_kind_are_refused(call, store):
    with pytest.raises(WrongTypeError, match=r"options is \w+, but must be \w+Options"):
        call(store)


@pytest.mark.parametrize(
    ("kind", "given", "problem"),
    [
        (TrainOptions, {"cost": "1"}, "cost is '1' of type str, but must be a number"),
        (TrainOptions, {"group": 2.0}, "group is 2.0 of type float, but must be an integer or No"),
        (TrainOptions, {"seed": True}, "seed is True of type bool, but must be an integer"),
        (TrainOptions, {"costs": 1.0}, "costs is 1.0 of type float, but must be a tuple"),
        (TrainOptions, {"costs": X}, r"costs is array.* but must be a tuple \(a number, ...\)"),
        (
            TrainOptions,
            {"class_weights": {"1": 2}},
            r"but must be a tuple \(a tuple \(a number, a n",
        ),
        (
            TrainOptions,
            {"class_weights": {1: None}},
            r"but must be a tuple \(a tuple \(a number, a n",
        ),
        (
            TrainOptions,
            {"class_weights": "balanced"},
            r"class_weights is str, but must be a dict\n  fix: give {LABEL: .*; balanced=True",
        ),
        (
            TrainOptions,
            {"class_weights": ((1, 2, 3),)},
            r"but must be a tuple \(a tuple \(a number",
        ),
        (TrainOptions, {"resume": "no"}, "resume is 'no' of type str, but must be True or False"),
        (TrainOptions, {"evaluate": X}, "evaluate is array.* must be a str or None"),
        (SplitOptions, {"text": {}}, r"text is {} of type dict, but must be TextOptions\(...\)"),
        (SplitOptions, {"blocks": "8"}, "blocks is '8' of type str, but must be an integer or N"),
        (TextOptions, {"memory_bytes": "1G"}, "memory_bytes is '1G' of type str, but must be an i"),
        (TextOptions, {"on_error": 10**5000}, "on_error is an integer of 16610 bits of type int"),
        (TrainOptions, {"costs": {10**5000}}, "costs is a set with an integer of too many digits"),
        (AddOptions, {"batch": 3}, "batch is 3 of type int, but must be a str or None"),
    ],
)
def test_an_option_of_the_wrong_type_is_refused(kind, given, problem):
    with pytest.raises(WrongTypeError, match=problem):
        kind(**given)


def test_numbers_of_numpy_are_numbers(store):
    options = TrainOptions(cost=np.float64(2), seed=np.int64(3), gap=1, costs=[1, 2.5])
    assert (options.cost, options.seed, options.gap) == (2.0, 3, 1)
    floats = options.cost, options.gap, *options.costs
    assert {type(number) for number in floats} == {float}  # kernels are compiled for these
    assert TrainOptions(cost=2**53 + 1).cost == 2**53 + 1
    given = {
        "cost": np.int64(2), "solver": np.int64(3), "seed": np.int32(3), "bias": np.float32(0.5),
        "group": np.int64(1), "class_weights": {np.int64(1): np.float32(2)},
    }  # fmt: skip
    plain = {"cost": 2, "solver": 3, "seed": 3, "bias": 0.5, "group": 1, "class_weights": {1: 2.0}}
    found, expected = (blocklinear.train(store, restart=True, **how) for how in (given, plain))
    assert found.weights.tobytes() == expected.weights.tobytes()
    models = blocklinear.train_grid(store, costs=np.logspace(-1, 1, 3), restart=True)
    assert len(models) == 3


NO_MATRICES = [
    "rows.svm", [["a", "b"]], [["1", "2"]], [[1, 2], [3]], object(), [[1j, 2.0]],
    csr_matrix([[1j, 2.0]]), np.array([["2026-01-01"]], "datetime64[s]"),
]  # fmt: skip


@pytest.mark.parametrize("wrong", NO_MATRICES)
def test_what_is_no_matrix_cannot_be_predicted(store, wrong):
    model = blocklinear.train(store)
    assert isinstance(model, LinearModel)
    with pytest.raises(InputError, match="must be a SciPy matrix or an array of real numbers"):
        model.predict(wrong)


def test_a_path_that_holds_no_store_is_told(tmp_path):
    with pytest.raises(BlocklinearError, match="manifest"):
        blocklinear.train(tmp_path)
