"""Powers of ten: every table of them that reads, stores or restores a decimal is one of these."""

import numpy as np
from numpy.typing import NDArray

_EXACT = [10**k for k in range(251)]
POWERS: NDArray[np.float64] = np.array([float(p) for p in _EXACT[:23]])
"""10**k, float64[23]: all that a double holds exactly, hence all exponents of a stored decimal."""
INTEGER_POWERS: NDArray[np.int64] = np.array(_EXACT[:19])
"""10**k, int64[19]: all that an int64 holds."""
POWERS_HIGH: NDArray[np.float64] = np.array([float(p) for p in _EXACT])
POWERS_LOW: NDArray[np.float64] = np.array([float(p - int(float(p))) for p in _EXACT])
"""10**k as the unevaluated sum of two doubles, float64[251] each."""
