"""What solvers tell of their passes."""

import math

import numpy as np

from blocklinear.solvers.pass_statistics import rises


def test_the_rise_is_the_largest_gain_as_a_part_of_the_dual_value():
    assert rises(np.array([1.0, 3.0]), np.array([-2.0, 30.0])) == 0.5
    assert rises(np.array([1.0, 0.0]), np.zeros(2)) == math.inf
    assert rises(np.zeros(2), np.zeros(2)) == 0.0


def test_a_loss_by_rounding_is_no_rise_of_a_dual_value_of_zero():
    assert rises(np.array([-1e-300]), np.zeros(1)) == 0.0
