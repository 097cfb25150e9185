"""Random orders as pure functions of a key, uint64[n_words]."""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import mix

_ONE = 2.0**30
"""The largest weight of a row in a schedule: sums of weights below 2**62 are exact."""


@kernel
def key_state(key):
    """Return the first state of the generator whose words are `mix(state)`."""
    state = np.uint64(0)
    for word in key:
        state = mix(state ^ word)
    return state


@kernel
def uniform(bits):
    """Return a number from 0 to below 1, of 64 bits that are mixed."""
    return np.float64(bits >> np.uint64(11)) * 2.0**-53


@kernel
def _shuffle(state, out):
    """Put `out` in a random order (Fisher-Yates)."""
    for i in range(out.shape[0] - 1, 0, -1):
        state += np.uint64(0x9E3779B97F4A7C15)
        # the high half of a 32 x 32 bit product draws from 0..i without division; n < 2**32
        j = np.int64(((mix(state) >> np.uint64(32)) * np.uint64(i + 1)) >> np.uint64(32))
        out[i], out[j] = out[j], out[i]


@kernel
def permutation(key, out):
    """Write a permutation of 0..n-1 to int64[n] `out`."""
    for i in range(out.shape[0]):
        out[i] = i
    _shuffle(key_state(key), out)


@kernel
def _log_weight(preference):
    """Return log p as float64, 0 for what is not a number."""
    return np.float64(preference) if preference == preference else 0.0


@kernel
def _weight(preference, top):
    """Return p as a multiple of the largest one's 2**-30, whose log is `top`; 0 below that."""
    x = _log_weight(preference)
    if x == top:  # also where both are infinite
        return np.int64(_ONE)
    return np.int64(_ONE * np.exp(x - top) + 0.5)


@kernel
def schedule(key, preference, out):
    r"""Write n of the numbers 0..n-1, each about as often as preferred, in a random order.

    Row i, with j entries of n written by those before it, gets (AVSF, Algorithm 4)

        floor(m) or ceil(m) entries, m = (n - j) p_i / sum_{k >= i} p_k on average.

    The p_i are rounded to integers, so that the sums are exact: the last row with a p_i > 0 gets
    exactly the entries that are left. With equal preferences it is `permutation`.

    All of `out`, int64[n], is written, whatever the preferences are: the largest p_i counts as
    2**30, so that there is always a row to take what is left.

    Parameters
    ----------
    preference : float32[n]   log p_i; a row whose p_i is below 2**-31 of the largest is left out;
                              what is not a number stands for 0
    """
    n = out.shape[0]
    top = -np.inf
    for x in preference:
        top = max(top, _log_weight(x))
    rest = np.int64(0)
    for x in preference:
        rest += _weight(x, top)

    state = key_state(key)
    j = 0
    for i in range(n):
        weight = _weight(preference[i], top)
        if weight == 0:
            continue
        share = weight * np.int64(n - j)  # < 2**62, as n < 2**32
        count, remainder = share // rest, share % rest
        if remainder > 0:
            state += np.uint64(0x9E3779B97F4A7C15)
            count += uniform(mix(state)) * rest < remainder
        for _ in range(count):
            out[j] = i
            j += 1
        rest -= weight
    _shuffle(state, out)


@kernel
def draws(key, out):
    """Write numbers from 0..n-1, drawn independently, to int64[n] `out`."""
    state, n = key_state(key), np.uint64(out.shape[0])
    for i in range(out.shape[0]):
        state += np.uint64(0x9E3779B97F4A7C15)
        out[i] = np.int64(((mix(state) >> np.uint64(32)) * n) >> np.uint64(32))
