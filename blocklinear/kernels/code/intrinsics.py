"""What emits code of LLVM where kernels call it."""

import functools
import os

DISABLED = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"
"""Whether kernels are plain Python functions."""


def intrinsic(python, **options):
    """Return a decorator for what emits code of LLVM where kernels call it.

    Parameters
    ----------
    python : function
        What does the same where nothing is compiled.
    **options
        Of `numba.extending.intrinsic`.
    """
    return lambda function: python if DISABLED else _Intrinsic(function, options)


class _Intrinsic:
    """What emits code."""

    def __init__(self, function, options):
        self._function, self._options = function, options

    @functools.cached_property
    def _numba_type_(self):
        """What it is to Numba in functions that call it."""
        from numba.core.registry import cpu_target
        from numba.extending import intrinsic

        made = (intrinsic(**self._options) if self._options else intrinsic)(self._function)
        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()
        return cpu_target.typing_context.resolve_value_type(made)
