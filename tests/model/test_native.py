import hashlib
import json
import tracemalloc
import zipfile

import numpy as np
import pytest
from effort import EXTENSIVE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from json_faults import json_faults

from blocklinear.errors import DamagedError, MemoryBudgetError, MismatchError
from blocklinear.model import native
from blocklinear.model.linear import LinearModel


def members(path):
    """Name to array, as NumPy reads them."""
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)


def forge(path, arrays, seal=True):
    """Write a file that is right in form, whatever it says."""
    arrays = {name: array for name, array in arrays.items() if name != "sha256"}
    digest = hashlib.sha256()
    for name, array in arrays.items():
        digest.update(name.encode() + array.tobytes())
    if seal:
        arrays["sha256"] = np.frombuffer(digest.digest(), np.uint8)
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            prefix = native._prefix(array.dtype.str, array.shape)
            archive.writestr(f"{name}.npy", prefix + array.tobytes())


def with_header(path, **changes):
    """Forge the file at `path` with another header."""
    arrays = members(path)
    header = json.loads(arrays["header"].tobytes()) | changes
    forge(path, arrays | {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)})


@pytest.fixture
def dense(make_model, tmp_path):
    make_model(metadata={"C": 1.0}).save(tmp_path / "dense")
    return tmp_path / "dense"


@pytest.fixture
def sparse(make_model, tmp_path):
    weights = np.zeros((40, 3))
    weights[[3, 30]] = 1.5
    make_model(n_features=40, labels=(1.0, 2.0, 3.0), weights=weights).save(tmp_path / "sparse")
    return tmp_path / "sparse"


@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data(), n_features=st.integers(0, 30), n_labels=st.integers(1, 4))
def test_round_trip_to_the_bit(tmp_path, same, data, n_features, n_labels):
    columns = 1 if n_labels == 2 else n_labels
    number = st.one_of(
        st.just(0.0), st.just(-0.0), st.floats(allow_nan=False, allow_infinity=False)
    )
    model = LinearModel(
        weights=data.draw(arrays(np.float64, (n_features, columns), elements=number)),
        bias_weights=data.draw(arrays(np.float64, columns, elements=number)),
        bias=data.draw(st.floats(0, 1e6)),
        labels=tuple(np.arange(n_labels) + 0.5),
        solver="L2R_LR",
        index_base=data.draw(st.sampled_from([0, 1])),
        metadata=data.draw(st.dictionaries(st.text(), st.integers() | st.text())),
    )
    model.save(tmp_path / "m")
    assert same(LinearModel.load(tmp_path / "m"), model)


def test_numpy_opens_it(dense, sparse):
    assert members(dense)["weights"].shape == (5, 1)
    assert json.loads(members(dense)["header"].tobytes())["metadata"] == {"C": 1.0}
    assert members(sparse)["rows"].tolist() == [3, 30]


def test_same_model_same_bytes(dense, tmp_path):
    LinearModel.load(dense).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == dense.read_bytes()


def test_one_class_keeps_rho(make_model, same, tmp_path):
    model = make_model(labels=(), solver="ONECLASS_SVM", rho=0.25)
    model.save(tmp_path / "m")
    assert same(LinearModel.load(tmp_path / "m"), model)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_every_byte_flipped_is_noticed_or_does_not_matter(request, same, tmp_path, kind):
    path = request.getfixturevalue(kind)
    whole, model = path.read_bytes(), LinearModel.load(path)
    noticed, messages, masks = 0, set(), (0x01, 0x80, 0xFF)
    for position in range(len(whole)):
        for mask in masks if EXTENSIVE else masks[position % 3 :][:1]:
            flipped = bytearray(whole)
            flipped[position] ^= mask
            path.write_bytes(flipped)
            try:
                loaded = LinearModel.load(path)
            except DamagedError as error:
                messages.add(str(error))
                noticed += 1
            else:
                assert same(loaded, model), position
    assert noticed > (2 if EXTENSIVE else 2 / 3) * len(whole)
    assert all(message.startswith(f"{path}: ") for message in messages)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_every_truncation_is_noticed(request, kind):
    path = request.getfixturevalue(kind)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedError):
            LinearModel.load(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "other"},
        {"version": 0},
        {"version": "1"},
        {"version": True},
        {"n_features": 2**40},
        {"n_features": 4},
        {"n_features": 6},
        {"n_features": -1},
        {"n_features": 5.0},
        {"n_columns": 2},
        {"n_columns": 2**31},
        {"n_columns": 0},
        {"labels": [1, 2, 3]},
        {"labels": [1, "2"]},
        {"labels": [1, float("nan")]},
        {"labels": "12"},
        {"labels": [10**400, 2]},
        {"bias": None},
        {"bias": float("inf")},
        {"solver": "SVM"},
        {"solver": 3},
        {"index_base": 7},
        {"layout": "sparse"},
        {"layout": "sparse", "n_rows_stored": 2**31},
        {"layout": "other"},
        {"layout": ["dense"]},
        {"metadata": []},
        {"version": None},
        {"rho": 1.0},
    ],
    ids=str,
)
def test_a_header_that_lies_is_noticed(dense, changes):
    with_header(dense, **changes)
    with pytest.raises(DamagedError, match="dense"):
        LinearModel.load(dense)


METADATA = {
    "C": 1.0, "class_weights": [[1.0, 2.0]], "balanced": False, "epsilon": 0.1, "method": "dual",
    "certificate": {"primal": 2.0, "dual": 1.0, "gap": 0.5, "drift": 0.0, "average": True},
    "outer_iterations": 3, "stopped": "gap", "seed": 7, "memory_bytes": 1 << 30, "hash_bits": 0,
    "normalize": "none", "store": "0" * 64, "written_by": "0.1.0",
}  # fmt: skip


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_header_with_a_field_of_any_other_kind_is_refused_or_does_no_harm(
    make_model, tmp_path, kind
):
    n_features = 4 if kind == "dense" else 40
    weights = np.zeros((n_features, 1))
    weights[:4] = 1.5
    model = make_model(n_features=n_features, weights=weights, metadata=METADATA)
    model.save(tmp_path / "model")
    arrays = members(tmp_path / "model")
    header = json.loads(arrays["header"].tobytes())
    assert header["layout"] == kind
    errors, taken = [], set()
    for where, changed in json_faults(header):
        text = np.frombuffer(json.dumps(changed).encode(), np.uint8)
        forge(tmp_path / "model", arrays | {"header": text})
        try:
            found = LinearModel.load(tmp_path / "model")
        except (DamagedError, MismatchError) as error:
            errors.append(error)
            continue
        assert found.summary()
        assert json.dumps(found.describe())
        assert found.decision_function(np.ones((2, n_features))).shape == (2,)
        taken.add(where.split(" ")[0].split("[")[0])
    assert {error.exit_code for error in errors} == {4}
    assert {str(error).count("\n") for error in errors} == {1}
    assert len(errors) > 140
    # other labels and another bias, metadata that nothing depends on, or that has a default
    assert {name for name in taken if not name.startswith("metadata")} == {"bias", "labels"}


def test_a_newer_version_is_a_mismatch(dense):
    with_header(dense, version=native.VERSION + 1)
    with pytest.raises(
        MismatchError, match=f"format {native.VERSION + 1} is newer than {native.VERSION},"
    ):
        LinearModel.load(dense)


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": np.array([30, 3], "<u4")},
        {"rows": np.array([3, 3], "<u4")},
        {"rows": np.array([3, 40], "<u4")},
        {"rows": np.array([3], "<u4")},
        {"rows": np.array([3, 30], "<i4")},
        {"row_weights": np.ones((2, 2))},
        {"row_weights": np.full((2, 3), np.nan)},
        {"row_weights": np.full((2, 3), np.inf)},
        {"row_weights": np.ones((2, 3), "<f4")},
        {"bias_weights": np.ones(3)},
        {"extra": np.ones(3)},
    ],
    ids=str,
)
def test_hostile_arrays_are_noticed(sparse, changes):
    forge(sparse, members(sparse) | changes)
    with pytest.raises(DamagedError, match="sparse"):
        LinearModel.load(sparse)


def test_more_weights_than_memory_are_refused_before_they_are_allocated(sparse):
    with_header(sparse, n_features=2**32, n_columns=2**20)
    with pytest.raises(DamagedError):
        LinearModel.load(sparse)  # its arrays are too short for so many columns
    with pytest.raises(MemoryBudgetError, match="available"):
        native._Sparse(2**32, 2**10).all("m")


def test_weights_with_zeros_are_read_with_little_more_memory_than_they_take(tmp_path):
    """Those of features that have some were there twice; with one column, once and a third."""
    weights = np.random.default_rng(0).standard_normal((300_000, 3))
    weights[::4] = 0.0
    weights[1::7, 0] = 0.0
    for n_columns in (1, 3):
        some = weights[:, :n_columns] if n_columns > 1 else weights[:, :1] * (weights[:, 1:2] > 0.0)
        labels = tuple(map(float, range(max(n_columns, 2))))
        bias = np.zeros(n_columns)
        model = LinearModel(some, bias, -1.0, labels, "L2R_LR", 1, {})
        model.save(tmp_path / "m")
        assert (tmp_path / "m").stat().st_size < model.weights.nbytes  # sparse
        tracemalloc.start()
        try:
            with open(tmp_path / "m", "rb") as stream:
                found = native.read("m", stream)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert most < model.weights.nbytes + (4 << 20)
        np.testing.assert_array_equal(found.weights, model.weights)


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff", b"3", b"null", b"{}"])
def test_hostile_json_is_noticed(dense, content):
    forge(dense, members(dense) | {"header": np.frombuffer(content, np.uint8)})
    with pytest.raises(DamagedError):
        LinearModel.load(dense)


def test_a_missing_seal_is_noticed(dense):
    forge(dense, members(dense), seal=False)
    with pytest.raises(DamagedError):
        LinearModel.load(dense)


def test_objects_are_never_unpickled(dense):
    arrays = members(dense)
    np.savez(dense.with_suffix(".npz"), **(arrays | {"weights": np.array([{}] * 5)[:, None]}))
    with pytest.raises(DamagedError):
        LinearModel.load(dense.with_suffix(".npz"))


def test_a_compressed_member_is_refused(dense):
    arrays = members(dense)
    np.savez_compressed(dense.with_suffix(".npz"), **arrays)
    with pytest.raises(DamagedError):
        LinearModel.load(dense.with_suffix(".npz"))


@pytest.mark.parametrize("more", [b"\n", bytes(30), None])
def test_a_model_is_the_whole_file(dense, more):
    whole = dense.read_bytes()
    dense.write_bytes(whole + (whole if more is None else more))
    with pytest.raises(DamagedError, match="the file is longer than the model in it"):
        LinearModel.load(dense)
