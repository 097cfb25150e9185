"""Warm starts of Pegasos: it goes on with its w, or says why not."""

from dataclasses import replace

import numpy as np

from blocklinear.events import WarmStarted
from blocklinear.store.changes import remove
from blocklinear.training import train
from blocklinear.training.checkpoint import Checkpoint
from blocklinear.training.garbage import collect_garbage
from training.small import Heard, split_text
from training.warm import check, how, more, rows, trained


def test_pegasos_goes_on_with_w_and_its_count(tmp_path):
    store = split_text(tmp_path, rows(1, 200), 6)
    options = how(3, method="pegasos", max_outer=15, gap=1e-9)
    first = train(store, options).metadata["certificate"]["primal"]
    updates = np.zeros(1)
    Checkpoint(store.folder / "runs" / "default").load({"updates-0": updates})
    assert updates[0] == 15 * 200
    more(store, rows(2, 20, 14), "more", 1)
    seen = Heard()
    options = replace(options, max_outer=1, warm_start=True)
    train(store, options, seen)
    assert seen.of(WarmStarted)[0].how == "kept"
    Checkpoint(store.folder / "runs" / "default").load({"updates-0": updates})
    assert updates[0] == 15 * 200 + 220
    cold = train(store, replace(options, warm_start=False, run="cold"))
    warm = train(store, options)
    primals = [model.metadata["certificate"]["primal"] for model in (warm, cold)]
    assert primals[0] < primals[1]
    assert primals[0] < 1.3 * first
    # what it leaves is a start for coordinate descent
    found = check(store, how(3))
    assert (found.started.how, found.started.rows_kept) == ("recomputed", 220)


def test_pegasos_without_its_w_starts_anew(tmp_path):
    store = split_text(tmp_path, rows(1, 60), 4)
    options = how(3, method="pegasos", max_outer=3)
    train(store, how(3, max_outer=3))
    found = trained(store, replace(options, warm_start=True))
    assert "not trained by pegasos" in found.warnings[0]
    more(store, rows(2, 20), "more", 1)
    train(store, options)
    remove(store, ["more"])
    collect_garbage(store)
    found = trained(store, replace(options, warm_start=True))
    assert "gc" in found.warnings[0]


def test_pegasos_with_other_classes_starts_anew(tmp_path):
    store = split_text(tmp_path, rows(1, 60), 4)
    options = how(3, method="pegasos", max_outer=3)
    train(store, options)
    more(store, rows(2, 20, classes=(5.0, 6.0)), "more", 1)
    remove(store, ["b1"])
    found = trained(store, replace(options, warm_start=True))
    assert "other ones" in found.warnings[0]
    assert found.started is None
