from pathlib import Path

import numpy as np
import pytest

from blocklinear import SplitOptions, TrainOptions, split, train
from blocklinear.events import OuterIteration, Warned
from blocklinear.training import loop
from blocklinear.training.stopping import Stopping

DATA = Path(__file__).parents[1] / "data"
HARD = {"solver": 1, "cost": 10.0, "gap": 1e-6, "group": 1}


@pytest.fixture(scope="module")
def heart(tmp_path_factory):
    """Four fixed blocks of few features: coordinate descent alone takes thousands of passes."""
    folder = tmp_path_factory.mktemp("newton")
    return split([DATA / "heart_scale.train.svm.bz2"], folder / "s", SplitOptions(blocks=4))


def run(store, monkeypatch, **changes):
    monkeypatch.setattr(loop, "NEWTON_AFTER", 5)
    heard = []
    model = train(store, TrainOptions(**{**HARD, **changes}), heard.append)
    return model, [e for e in heard if isinstance(e, OuterIteration)], heard


def test_newton_finishes_what_descent_leaves(heart, monkeypatch):
    model, reports, heard = run(heart, monkeypatch)
    assert any(isinstance(e, Warned) and "Newton" in e.message for e in heard)
    assert model.metadata["certificate"]["gap"] <= 1e-6
    assert model.metadata["outer_iterations"] < 200
    steps = [report for report in reports if report.outer > 5]
    assert all(report.certified for report in steps)
    primal = [report.primal for report in steps]
    assert primal == sorted(primal, reverse=True)
    # each gap bounds the distance from the optimum, and no dual value is above it
    best = train(heart, TrainOptions(**{**HARD, "gap": 1e-9, "group": 4}))
    optimum = best.metadata["certificate"]["primal"]
    for report in steps:
        assert report.primal - optimum <= report.gap * report.primal
        assert report.dual <= optimum * (1 + 1e-12)


def test_the_optimum_is_that_of_descent(heart, monkeypatch):
    model, _, _ = run(heart, monkeypatch, bias=1.0, class_weights=((1.0, 2.0),))
    reference = train(
        heart, TrainOptions(**{**HARD, "group": 4}, bias=1.0, class_weights=((1.0, 2.0),))
    )
    values = [m.metadata["certificate"]["primal"] for m in (model, reference)]
    np.testing.assert_allclose(*values, rtol=2e-6)


def test_it_stops_where_it_is_told_to(heart, monkeypatch):
    model, reports, heard = run(heart, monkeypatch, max_outer=8)
    assert model.metadata["outer_iterations"] <= 9
    assert "not converged" in [e for e in heard if isinstance(e, Warned)][-1].message
    assert reports[-1].certified


def test_violations_are_left_to_descent(heart, monkeypatch):
    _, _, heard = run(heart, monkeypatch, gap=None, tolerance=0.1, max_outer=20)
    assert not any(isinstance(e, Warned) and "Newton" in e.message for e in heard)


def test_a_certificate_that_fails_does_not_put_it_off(heart, monkeypatch):
    """A run resumed there does not certify again: it would go another way."""
    monkeypatch.setattr(Stopping, "wants_certificate", lambda self, report, _: report.outer == 5)
    _, reports, _ = run(heart, monkeypatch)
    assert [report.certificates for report in reports[:5]] == [0] * 4 + [1]
    assert [report.steps == 0 for report in reports[:6]] == [False] * 5 + [True]


def test_threads_do_not_matter(heart, monkeypatch):
    one, _, _ = run(heart, monkeypatch, threads=1)
    two, _, _ = run(heart, monkeypatch, threads=2)
    assert np.array_equal(one.weights, two.weights)
    assert one.metadata["certificate"] == two.metadata["certificate"]
