"""Facts of checkpoints whose types are wrong, under a checksum that is right."""

import contextlib
import json
import shutil

import pytest
from effort import EXTENSIVE
from json_faults import json_faults

from blocklinear import train_grid
from blocklinear.errors import DamagedError, MismatchError
from blocklinear.ingest.split import split
from blocklinear.options import SplitOptions, TextOptions, TrainOptions
from blocklinear.training import checkpoint, train
from blocklinear.training.checkpoint import Checkpoint
from blocklinear.training.checkpoint_schema import check_blocks, check_facts

ROWS = b"1 1:1 2:0.5\n-1 1:3 5:0.02\n1 3:1\n-1 2:1 3:4\n%d 1:1\n1 2:2\n-1 4:1\n"
RUNS = {
    "hinge": {"solver": 3, "group": 1},
    "squared hinge": {"solver": 1, "group": 1, "bias": 1.0},
    "regression": {"solver": 13, "group": 1},
    "classes": {"solver": 3, "group": 1, "several": True},
    "grid": {"solver": 1, "costs": (1.0, 10.0), "several": True},
    "Crammer and Singer": {"solver": 4, "group": 1, "several": True},
    "pegasos": {"solver": 3, "method": "pegasos", "group": 1},
}
USUAL = ["hinge", "grid", "Crammer and Singer", "pegasos"]


@pytest.fixture(scope="module", params=RUNS if EXTENSIVE else USUAL)
def run(request, tmp_path_factory):
    """A store with a run that can be resumed: its folder, its options, its checkpoint."""
    folder = tmp_path_factory.mktemp("facts")
    how = dict(RUNS[request.param])
    (folder / "x.svm").write_bytes(ROWS % (2 if how.pop("several", False) else 1))
    text = TextOptions(threads=1, memory_bytes=1 << 29)
    store = split([folder / "x.svm"], folder / "store", SplitOptions(text, blocks=3))
    how |= {"threads": 1, "memory_bytes": 1 << 29, "gap": 1e-12}
    again(store, TrainOptions(**how, max_outer=2))
    return store, how, json.loads((at(store) / "checkpoint.json").read_bytes())["checkpoint"]


def again(store, options):
    return (train_grid if options.costs else train)(store, options)


def at(store):
    return store.folder / "runs" / "default"


def seal(store, body):
    text = json.dumps({"checksum": checkpoint._checksum(body), "checkpoint": body})
    (at(store) / "checkpoint.json").write_text(text)


def test_a_checkpoint_is_of_these_types(run):
    store, _, body = run
    seal(store, body)
    found = Checkpoint(at(store))
    assert found.checked(check_facts) == body["facts"]
    check_blocks(found.facts, "")


def test_a_field_of_any_other_kind_is_refused_or_does_no_harm(run, tmp_path):
    """Those of the course are compared with what is asked: another value is another run."""
    store, how, body = run
    kept = shutil.copytree(at(store), tmp_path / "run")
    errors, taken = [], []
    for where, changed in json_faults(body):
        seal(store, changed)
        try:
            Checkpoint(at(store)).checked(check_facts)
            if EXTENSIVE or "course" not in where or "course.solver" in where:
                taken.append(changed)
        except (DamagedError, MismatchError) as error:  # of a newer format
            errors.append(error)
    assert len(errors) > 300
    assert {str(error).count("\n") for error in errors} == {1}
    for changed in taken:
        shutil.rmtree(at(store))
        shutil.copytree(kept, at(store))
        seal(store, changed)
        with contextlib.suppress(DamagedError, MismatchError):
            again(store, TrainOptions(**how, max_outer=3, resume=True))
        if EXTENSIVE and "costs" not in how:
            seal(store, changed)
            again(store, TrainOptions(**how, max_outer=1, warm_start=True))


def with_state(tmp_path, state):
    """A store with a checkpoint of three models, its state changed; how it was made."""
    (tmp_path / "x.svm").write_bytes(ROWS % 2)
    text = TextOptions(threads=1, memory_bytes=1 << 29)
    store = split([tmp_path / "x.svm"], tmp_path / "store", SplitOptions(text, blocks=3))
    how = {"group": 1, "threads": 1, "memory_bytes": 1 << 29, "gap": 1e-12}
    again(store, TrainOptions(**how, max_outer=2))
    body = json.loads((at(store) / "checkpoint.json").read_bytes())["checkpoint"]
    body["facts"]["method"] |= state
    seal(store, body)
    return store, how


@pytest.mark.parametrize(
    "state",
    [
        {"trained": [[99]]},
        {"trained": []},
        {"certificates": []},
        {"by_pass": [[0, 1], [2]]},
        {"regions": 3 * [[1 << 61, 0, 0]]},
    ],
)
def test_a_state_that_contradicts_itself(tmp_path, state):
    store, how = with_state(tmp_path, state)
    with pytest.raises(DamagedError, match="the state of the method is impossible"):
        again(store, TrainOptions(**how, max_outer=3, resume=True))


@pytest.mark.parametrize("solver", [0, 5])
def test_numbers_of_models_on_their_way_are_of_their_kinds(tmp_path, solver):
    """Those of Newton's method and of L1 are compared with what they begin with."""
    (tmp_path / "x.svm").write_bytes(ROWS % 1)
    text = TextOptions(threads=1, memory_bytes=1 << 29)
    store = split([tmp_path / "x.svm"], tmp_path / "store", SplitOptions(text, blocks=3))
    how = {"solver": solver, "method": "newton", "threads": 1, "memory_bytes": 1 << 29}
    again(store, TrainOptions(**how, gap=1e-12, max_outer=2))
    body = json.loads((at(store) / "checkpoint.json").read_bytes())["checkpoint"]
    assert Checkpoint(at(store)).checked(check_facts) == body["facts"]
    passes = body["facts"]["method"]
    (model,) = passes["l1"]["models"] if solver == 5 else passes["newton"][0]["models"]
    assert len(model) > 8
    for name, value in list(model.items()):
        for wrong in ("x", [], 0.5 if type(value) in (bool, int) else True):
            model[name] = wrong
            seal(store, body)
            with pytest.raises(DamagedError):
                again(store, TrainOptions(**how, gap=1e-12, max_outer=3, resume=True))
        del model[name]
        seal(store, body)
        with pytest.raises(DamagedError):
            again(store, TrainOptions(**how, gap=1e-12, max_outer=3, resume=True))
        model[name] = value
