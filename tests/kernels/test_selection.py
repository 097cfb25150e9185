"""Which rows an epoch shrinks away or prefers, and that this changes no step."""

import numpy as np
import pytest
import reference
from dual_problems import Problem, close, every_loss, make, problems, run
from effort import examples
from hypothesis import assume, given
from hypothesis import strategies as st

from blocklinear.kernels import dual, losses


@examples(100)
@given(p=problems, i=st.integers(0, 6), threshold=st.sampled_from([0.0, 0.1, 1.0, np.inf]))
def test_shrinking_marks_rows_that_press_against_their_bound(p, i, threshold):
    i %= len(p)
    preference = np.full(len(p), 0.5, np.float32)
    adapt = np.array([threshold, 7.0])
    touch = run(p, [i], p.alpha.copy(), p.w, dual.SHRINK, preference, adapt)
    left, right = p.slopes(p.alpha, i)
    pressure = min(right, -left)  # above 0 where both ways lead up
    assume(abs(pressure - threshold) > 1e-9)
    marked = p.kind != losses.LOGISTIC and pressure > threshold  # its optima are never at a bound
    assert preference[i] == (np.float32(dual.SHRUNK) if marked else 0.5)
    assert (np.delete(preference, i) == 0.5).all()
    assert adapt.tolist() == [threshold, 7.0]
    if marked:
        assert touch[[dual.PG_MAX, dual.PG_MIN, dual.GAIN]].tolist() == [0, 0, 0]


@pytest.mark.parametrize(("threshold", "marked"), [(2.0, False), (np.nextafter(2.0, 0.0), True)])
def test_a_row_must_press_harder_than_the_threshold(threshold, marked):
    p = Problem(losses.HINGE, np.ones((1, 1)), np.ones(1), np.ones(1), np.zeros(1))
    preference = np.zeros(1, np.float32)
    run(p, [0], p.alpha, np.array([3.0, 0.0]), dual.SHRINK, preference, np.array([threshold, 0.0]))
    assert preference[0] == (np.float32(dual.SHRUNK) if marked else 0.0)


@every_loss
def test_preferences_follow_the_gains(kind):
    p = make(kind, 2, n=12, bias=1.0, epsilon=0.1)
    order = np.random.default_rng(0).integers(0, 12, 60)
    alpha, w, gains = p.alpha.copy(), p.w, []
    for i in order:
        gains.append(run(p, [i], alpha, w)[dual.GAIN])
    mean = float(np.mean(gains))
    alpha, w = p.alpha.copy(), p.w
    preference, adapt = np.zeros(12, np.float32), np.array([3.0, mean])
    run(p, order, alpha, w, dual.AVSF, preference, adapt)
    expected, mean = reference.preferences(gains, order, np.ones(12), mean)
    close(np.exp(preference), expected, 1e-5)
    close(adapt, [3.0, mean])
    assert preference.max() > 0.1 > -0.1 > preference.min()
    assert abs(preference).max() <= np.float32(np.log(20))


@every_loss
def test_preferences_have_limits(kind):
    p = make(kind, 4, n=12)
    for mean, limit in ((1e-9, 1), (1e9, -1)):
        preference, adapt = np.zeros(12, np.float32), np.array([0.0, mean])
        alpha, w = 0 * p.alpha, np.zeros(5)
        if limit == 1:
            run(p, [5], alpha, w, dual.AVSF, preference, adapt)
            assert preference[5] == np.float32(np.log(20))
        else:
            run(p, [5] * 40, alpha, w, dual.AVSF, preference, adapt)
            assert preference[5] == -np.float32(np.log(20))
        assert not np.delete(preference, 5).any()


@every_loss
def test_selection_changes_no_step(kind):
    p = make(kind, 5, n=12, epsilon=0.1)
    found = []
    for selection in (dual.PERMUTE, dual.SHRINK, dual.AVSF):
        alpha, w, adapt = p.alpha.copy(), p.w, np.zeros(2)
        preference = np.zeros(0 if selection == dual.PERMUTE else 12, np.float32)
        touch = run(p, range(12), alpha, w, selection, preference, adapt)
        found.append(b"".join(x.tobytes() for x in (alpha, w, touch)))
        assert not adapt.any()  # without a mean there is nothing to compare with
        assert selection == dual.SHRINK or not preference.any()
    assert len(set(found)) == 1
