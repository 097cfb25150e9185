"""Doubles back to the decimals they are written as."""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import RAW


@kernel
def to_decimals(values, powers, mantissa, bits, exponent):
    """Write each number as ``mantissa / 10**exponent`` with the smallest exponent that is exact.

    Exact means that the division gives the number back to the last bit, which is checked. Numbers
    that have no such decimal of at most 2**53 are kept as they are.

    Parameters
    ----------
    values : float64[n]       finite
    powers : float64[23]      10**k
    mantissa, bits : int64[n], float64[n]      the same memory; written
    exponent : uint8[n]       written: 0..22, or `RAW` where `bits` holds the number itself
    """
    for k in range(values.shape[0]):
        value = values[k]
        exponent[k] = RAW
        bits[k] = value
        for e in range(powers.shape[0]):
            scaled = np.rint(value * powers[e])
            if abs(scaled) > 9007199254740992.0:  # 2**53
                break
            if scaled / powers[e] == value:
                mantissa[k] = np.int64(scaled)
                exponent[k] = e
                break
