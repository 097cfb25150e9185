"""The largest weights of a model, found in memory that does not grow with its features."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_FEATURES_AT_A_TIME = 1 << 18


def largest(weights: Floats, column: int, top: int) -> npt.NDArray[np.int64]:
    """Return the features of the largest weights by size, the largest first; none that is 0.

    Of equal weights those of the smaller features are taken.

    Parameters
    ----------
    weights : float64[n_features, n_columns]
    """
    kept, sizes = np.empty(0, np.int64), np.empty(0)
    for start in range(0, len(weights), _FEATURES_AT_A_TIME):
        size = np.abs(weights[start : start + _FEATURES_AT_A_TIME, column])
        places = np.flatnonzero(size)
        if len(places) > top:  # all that are as large as the last one
            least = np.partition(size[places], len(places) - top)[len(places) - top]
            places = places[size[places] >= least]
        kept, sizes = np.concatenate([kept, start + places]), np.concatenate([sizes, size[places]])
        order = np.lexsort((kept, -sizes))[:top]
        kept, sizes = kept[order], sizes[order]
    return kept
