from types import SimpleNamespace

import pytest

from blocklinear.options import TrainOptions
from blocklinear.planning import trials as module
from blocklinear.planning.sample import blocks_like
from blocklinear.planning.trials import PassTrial, Trend, Trial, pass_seconds, run_trials


def trial(nnz, entries, converged=True):
    return Trial(nnz, entries, 1, 3, entries * 1e-6, nnz * 1e-7, 1.0 + entries * 1e-6, converged)


def test_trainings_of_growing_size(store):
    trials = run_trials(store, TrainOptions(), 60.0)
    m = store.manifest
    assert [found.nnz for found in trials] == [m.nnz * k // 10 for k in (1, 2, 5, 10)]
    assert all(found.converged for found in trials)
    assert all(found.entries >= found.nnz for found in trials)
    assert all(0 < found.solve_s < found.seconds for found in trials)


def test_a_training_that_takes_too_long_is_the_last(store):
    trials = run_trials(store, TrainOptions(gap=1e-12, max_outer=2), 60.0)
    assert [found.converged for found in trials] == [False]
    assert Trend.of(trials) is None


def test_methods_that_count_no_entries(store):
    for found in run_trials(store, TrainOptions(solver=2, method="newton"), 60.0):
        assert found.entries >= found.nnz * found.outer


@pytest.mark.parametrize("power", [1.0, 1.2, 1.4])
def test_work_is_a_power_of_the_entries(power):
    trend = Trend.of([trial(n, round(n**power)) for n in (1_000, 2_000, 4_000, 8_000)])
    assert trend.exponent == pytest.approx(power - 1, abs=1e-3)
    found = trend.seconds(80_000, 2.0)
    work = 80_000 ** (1 + trend.exponent) * 1e-6 + 80_000 * 1e-7
    start = trend.last.seconds - trend.last.solve_s - trend.last.certify_s
    assert found.likely == pytest.approx(start + 2.0 * work, rel=1e-2)
    assert found.low - start < (found.likely - start) / 1.3
    assert found.high - start > (found.likely - start) * 1.3


def test_few_trainings_have_the_usual_exponent():
    assert Trend.of([trial(1_000, 5_000)]).exponent == 0.1
    assert Trend.of([trial(1_000, 5_000), trial(2_000, 9_000, False)]).last.nnz == 1_000


def test_a_fit_is_believed_within_bounds():
    wild = Trend.of([trial(n, n**3) for n in (1_000, 2_000, 4_000)])
    assert wild.exponent == 0.5


def test_a_pass(store):
    assert pass_seconds(store, 2) > 0


@pytest.mark.parametrize("n_small", [16, 2])
def test_a_pass_takes_so_much_for_each_block_and_each_entry(store, monkeypatch, n_small):
    def in_blocks(n):
        return SimpleNamespace(manifest=blocks_like(store.manifest, n))

    def fake(of, threads):
        return (2e-3 if n_small > 2 else 0.0) * len(of.manifest.blocks) + 1e-8 * of.manifest.nnz

    monkeypatch.setattr(module, "pass_seconds", fake)
    found = PassTrial.run(in_blocks(n_small), in_blocks(2), 1)
    expected = 7 * (2e-3 if n_small > 2 else 0.0) + 1e-8 * 10**9
    assert found.seconds(10**9, 7) == pytest.approx(expected)
