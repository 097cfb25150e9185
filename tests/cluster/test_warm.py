"""Warm starts on workers: from any earlier run, to the optimum that is proven from scratch."""

import math
from dataclasses import replace

import numpy as np
import pytest
from training.small import DUAL_SOLVERS, Heard, descent_alone, newton_after, split_text
from training.warm import check_proofs, more, rows
from training.warm import how as settings

import blocklinear
from blocklinear.cluster import worker
from blocklinear.errors import DamagedError, MismatchError, StoppedError
from blocklinear.events import OuterIteration, WarmStarted, Warned
from blocklinear.solvers.protocol import Abandoned
from blocklinear.store.changes import remove
from blocklinear.training.checkpoint import Checkpoint, files_of_rounds
from blocklinear.training.garbage import collect_garbage
from blocklinear.training.rounds import files as round_files

from .test_faults import Broken, bits, failing_once

PARTS = 3


def how(solver=1, **options):
    return settings(solver, **({"gap": 1e-2, "group": None, "max_outer": 400} | options))


def trained(store, client, options, halt=lambda: False, parts=PARTS, listener=None):
    """Return the model, what was reported of its start, and the outer iterations it took."""
    heard = Heard()

    def listen(event):
        heard(event)
        if listener is not None:
            listener(event)

    if client is None:
        model = blocklinear.train(store, options, listen, halt)
    else:
        model = blocklinear.train(store, options, listen, halt, client=client, parts=parts)
    started = heard.of(WarmStarted)
    return model, *(started or [None]), heard.of(OuterIteration)[-1].outer


def check(store, client, options, parts=PARTS):
    """Train warm, and from scratch on one machine; both hold what they say of the same optimum."""
    found = trained(store, client, replace(options, warm_start=True), parts=parts)
    cold = trained(store, None, replace(options, run="cold", restart=True))
    check_proofs(found[0], cold[0], options.gap)
    return found


def text_of(solver, seed=1, n_rows=100, n_features=6):
    return rows(seed, n_rows, n_features, values=solver in (12, 13))


@pytest.fixture
def store(tmp_path):
    return split_text(tmp_path, text_of(3), 6)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("before", ["cluster", "one machine"])
@pytest.mark.parametrize("solver", DUAL_SOLVERS)
def test_rows_added_and_removed(two, tmp_path, monkeypatch, solver, before, parts):
    newton_after(monkeypatch, math.inf)
    store = split_text(tmp_path, text_of(solver), 6)
    options = how(solver, bias=1.0)
    _, _, cold = trained(store, two if before == "cluster" else None, options, parts=parts)
    more(store, text_of(solver, 2, 20), "more", 1)
    _, started, warm = check(store, two, options, parts)
    assert (started.rows_kept, started.rows_new, started.rows_gone) == (100, 20, 0)
    assert (started.how, started.blocks_read) == ("recomputed", 7)
    assert warm <= cold or before != "cluster"
    gone = remove(store, blocks=[0])
    _, started, _ = check(store, two, options, parts)
    assert started.rows_kept == gone.manifest.n_rows
    assert started.rows_gone == 120 - gone.manifest.n_rows


@pytest.mark.parametrize("cost", [0.01, 0.3, 3.0])
@pytest.mark.parametrize("solver", DUAL_SOLVERS)
def test_another_cost(two, tmp_path, solver, cost):
    store = split_text(tmp_path, text_of(solver), 6)
    trained(store, two, how(solver))
    check(store, two, how(solver, cost=cost))


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (1, 7), (7, 3), (12, 13), (13, 12)])
def test_another_loss(two, tmp_path, before, after):
    store = split_text(tmp_path, text_of(before), 6)
    trained(store, two, how(before))
    check(store, two, how(after))


def test_other_weights_of_classes(two, store):
    trained(store, two, how(3, cost=0.05, class_weights=((1.0, 2.0),)))
    check(store, two, how(3, cost=0.05, class_weights=((-1.0, 2.0),)))


def test_alpha_of_another_kind_is_left(two, tmp_path):
    store = split_text(tmp_path, text_of(13), 6)
    trained(store, two, how(13))
    heard = Heard()
    more(store, text_of(3, 2), "classes", 1)
    remove(store, ["b1"])
    trained(store, two, how(3, warm_start=True), listener=heard)
    assert any("whose alpha is of another kind" in e.message for e in heard.of(Warned))
    assert not heard.of(WarmStarted)


def test_a_start_from_an_optimum_takes_few_rounds(two, store):
    _, _, cold = trained(store, two, how(3))
    model, _, warm = check(store, two, how(3))
    assert warm <= 3 < cold
    assert model.metadata["cluster"]["rounds"] == warm


@pytest.mark.parametrize("solver", [1, 3, 13])
@pytest.mark.parametrize("parts", [1, 3])
def test_one_machine_starts_from_a_run_of_a_cluster(two, tmp_path, monkeypatch, solver, parts):
    newton_after(monkeypatch, math.inf)
    store = split_text(tmp_path, text_of(solver), 6)
    trained(store, two, how(solver), parts=parts)
    _, started, _ = check(store, None, how(solver, gap=1e-6))
    assert (started.rows_kept, started.how) == (100, "kept")
    names = {path.name for path in (store.folder / "runs" / "default").glob("alpha.*.*")}
    assert not names


def test_another_number_of_parts(two, store):
    trained(store, two, how(3), parts=4)
    check(store, two, how(3), parts=2)


def test_bits_do_not_depend_on_workers(two, three, tmp_path):
    found = []
    for number, client in enumerate((two, three)):
        (tmp_path / str(number)).mkdir()
        store = split_text(tmp_path / str(number), text_of(3), 6)
        trained(store, client, how(3))
        more(store, text_of(3, 2, 30), "more", 2)
        found.append(bits(trained(store, client, how(3, warm_start=True))[0]))
    assert found[0] == found[1]


def test_dask_does_the_same(cluster, two, tmp_path):
    found = []
    for number, client in enumerate((two, cluster)):
        (tmp_path / str(number)).mkdir()
        store = split_text(tmp_path / str(number), text_of(3), 6)
        trained(store, client, how(3, max_outer=3))
        options = how(3, warm_start=True, cost=0.5, max_outer=3)
        found.append(bits(trained(store, client, options)[0]))
    assert found[0] == found[1]


CLASSES = (1.0, 2.0, 3.0, 4.0, 5.0)


@pytest.mark.parametrize("solver", [1, 3, 7])
def test_several_classes(two, tmp_path, solver):
    store = split_text(tmp_path, rows(1, 100, 6, classes=CLASSES[:3]), 6)
    options = how(solver, gap=1e-3)
    trained(store, two, options)
    more(store, rows(2, 40, 8, classes=(1.0, 4.0, 3.0, 5.0)), "other", 2)  # features and classes
    model, started, _ = check(store, two, options)
    assert len(model.labels) == 5
    assert started.rows_new == 40
    remove(store, ["other"])
    collect_garbage(store)
    model, started, _ = check(store, two, replace(options, class_weights=((2.0, 3.0),)))
    assert len(model.labels) == 3
    assert started.rows_kept == 100
    check(store, None, options)


@pytest.mark.parametrize("before", ["one machine", "cluster"])
def test_models_of_other_parts_start_warm(two, tmp_path, monkeypatch, before):
    """In how many parts models are trained one after another follows from the memory of each."""
    store = split_text(tmp_path, rows(1, 100, 6, classes=CLASSES[:4]), 6)
    options = how(1, gap=1e-3)
    with monkeypatch.context() as patch:
        patch.setattr(
            "blocklinear.training.parts.split_to_fit",
            lambda store, options, n, *rest, **more: [slice(0, 2), slice(2, n)],
        )
        trained(store, None if before == "one machine" else two, options)
    runs = store.folder / "runs"
    assert {path.name for path in runs.iterdir()} == {"default.part1of2", "default.part2of2"}
    _, started, rounds = check(store, two, options)
    assert started.rows_kept == 100
    assert rounds <= 2
    assert {path.name for path in runs.iterdir()} == {"default", "cold"}


def skewed(store, client, **options):
    """Train classes of which some are solved much earlier than others."""
    weights = ((1.0, 1e-3), (2.0, 30.0))
    return trained(store, client, how(3, gap=2e-3, class_weights=weights, **options))


@pytest.mark.parametrize(("after", "blocks"), [("cluster", 6), ("one machine", 6), ("gc", 16)])
def test_models_that_had_left_start_warm_too(two, tmp_path, after, blocks, monkeypatch):
    """Files of the rounds that they were trained in last are kept."""
    descent_alone(monkeypatch)
    store = split_text(tmp_path, rows(1, 150, 6, classes=CLASSES), blocks)
    _, _, cold = skewed(store, two)
    folder = store.folder / "runs" / "default"
    facts = Checkpoint(folder).facts
    kept = facts["method"]["kept"]
    assert kept
    assert sum(map(len, facts["method"]["trained"])) < 5
    numbers = set(files_of_rounds(folder).values())
    assert numbers == {*(of_round for of_round, *_ in kept), facts["outer"]}
    if after == "gc":
        remove(store, blocks=[2])
        collect_garbage(store)
        assert not files_of_rounds(folder)
        assert Checkpoint(folder).names == {"alpha"}
    model, _, warm = skewed(store, None if after == "one machine" else two, warm_start=True)
    assert warm < cold / 2
    assert max(c["gap"] for c in model.metadata["certificates"]) <= 2e-3


def test_from_a_grid(two, store):
    """From the model of the C that is nearest, by their ratio."""
    costs = (0.003, 0.03, 0.3)
    options = how(3, gap=1e-3, costs=costs)
    blocklinear.train_grid(store, options, Heard(), client=two, parts=PARTS)
    _, _, cold = trained(store, two, how(3, gap=1e-3, cost=0.25, run="other"))
    _, _, warm = check(store, two, how(3, gap=1e-3, cost=0.25))
    assert warm < cold


ROUNDS = 3


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Return a store with a run to start from, made anew, and how to start."""

    def make(at):
        folder = tmp_path_factory.mktemp(f"killed{at}")
        return split_text(folder, text_of(3), 6)

    return make, how(3, gap=1e-9, max_outer=ROUNDS, bias=1.0)


def started_warm(store, client, options, halt=lambda: False):
    return trained(store, client, replace(options, cost=0.2, warm_start=True), halt)


@pytest.fixture(scope="module")
def expected(killed, tmp_path_factory):
    from .serial import SerialClient

    make, options = killed
    with pytest.MonkeyPatch.context() as patch:
        client = SerialClient(2, tmp_path_factory.mktemp("s"), patch)
        store = make("not")
        trained(store, client, options)
        client.ran.clear()
        found = bits(started_warm(store, client, options)[0])
        return found, len(client.ran)


@pytest.mark.parametrize("at", range(0, 42, 3))
def test_a_client_that_dies_anywhere(serial, killed, expected, at):
    """Before the first checkpoint what the earlier run left is intact, and is started from anew."""
    make, options = killed
    store, client = make(at), serial(2)
    trained(store, client, options)
    found, tasks = expected
    client.before = failing_once(at, Broken("at a task"))
    if at >= tasks:
        assert bits(started_warm(store, client, options)[0]) == found
        return
    with pytest.raises(Broken):
        started_warm(store, client, options)
    if at < PARTS + PARTS - 1:
        with pytest.raises(MismatchError, match="belongs to another run"):
            trained(store, serial(1), replace(options, cost=0.2, resume=True))
        again = started_warm(store, serial(1), options)
    else:
        again = trained(store, serial(1), replace(options, cost=0.2, resume=True))
    assert bits(again[0]) == found


def test_a_start_that_is_stopped(serial, killed, expected):
    make, options = killed
    store, client = make("stopped"), serial(2)
    trained(store, client, options)
    client.ran.clear()
    with pytest.raises(StoppedError, match="with --resume instead of --warm-start"):
        started_warm(store, client, options, lambda: bool(client.ran))
    again = trained(store, serial(3), replace(options, cost=0.2, resume=True))
    assert bits(again[0]) == expected[0]


def test_a_start_that_is_given_up(serial, killed, expected, monkeypatch):
    make, options = killed
    store, client = make("given up"), serial(2)
    trained(store, client, options)
    before = Checkpoint(store.folder / "runs" / "default").checksum

    def abandoned(*arguments):
        raise Abandoned

    with monkeypatch.context() as patch:
        patch.setattr(worker.DescentPart, "start", abandoned)
        with pytest.raises(StoppedError, match="before there was anything to save"):
            started_warm(store, client, options)
    assert Checkpoint(store.folder / "runs" / "default").checksum == before
    assert bits(started_warm(store, client, options)[0]) == expected[0]


def test_a_run_that_had_not_begun(serial, killed):
    """A warm start from one that was broken off in its first round, after a warm start."""
    make, options = killed
    store, client = make("begun"), serial(2)
    trained(store, client, options)
    client.before = failing_once(2 * PARTS, Broken("in the first round"))
    with pytest.raises(Broken):
        started_warm(store, client, options)
    facts = Checkpoint(store.folder / "runs" / "default").facts
    assert (facts["outer"], facts["method"]["first"]) == (0, ROUNDS + 1)
    check(store, serial(2), replace(options, gap=1e-2, max_outer=400))


def test_a_run_of_nothing(serial, killed):
    """A warm start from one that was broken off in its first round: all alpha are 0."""
    make, options = killed
    store, client = make("nothing"), serial(2)
    client.before = failing_once(2, Broken("in the first round"))
    with pytest.raises(Broken):
        trained(store, client, options)
    check(store, serial(2), replace(options, gap=1e-2, max_outer=400))


@pytest.mark.parametrize("change", ["damaged", "gone"])
def test_alpha_that_is_lost(two, store, monkeypatch, change):
    monkeypatch.setattr(round_files, "SHOWS_UP_S", 0.0)
    trained(store, two, how(3))
    for path in files_of_rounds(store.folder / "runs" / "default"):
        if change == "gone":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(Exception, match=r"alpha\.\d+\.\d") as caught:
        trained(store, two, how(3, warm_start=True))
    assert isinstance(caught.value, DamagedError) or change == "gone"


def test_gc_leaves_what_a_run_needs(serial, store):
    """Also of one that can be resumed."""
    options = how(3, gap=1e-9, max_outer=6)
    expected = bits(trained(store, serial(2), replace(options, run="other"))[0])
    seen = []
    with pytest.raises(StoppedError):
        trained(store, serial(2), options, lambda: len(seen) > 2, listener=seen.append)
    collect_garbage(store)
    assert bits(trained(store, serial(2), replace(options, resume=True))[0]) == expected


def test_of_removed_rows_nothing_is_left(two, store):
    trained(store, two, how(3))
    folder = store.folder / "runs" / "default"
    left = remove(store, blocks=[0]).manifest.n_rows
    collect_garbage(store)
    checkpoint = Checkpoint(folder)
    names = {path.name for path in folder.iterdir()} - {"checkpoint.json"}
    assert names in ({"alpha.0"}, {"alpha.1"})
    assert checkpoint.mapped("alpha", np.dtype(np.float64)).size == left
    _, started, _ = check(store, two, how(3))
    assert started.rows_kept == left
