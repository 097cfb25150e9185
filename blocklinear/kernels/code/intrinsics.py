"""What emits code of LLVM where kernels call it."""

import functools
import os

DISABLED = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"
"""Whether kernels are plain Python functions."""


def intrinsic(python, literal=False):
    """Return a decorator for what emits code of LLVM where kernels call it.

    What is decorated gets a builder, arrays, which must be in C order, as structures with `data`
    and `shape`, and numbers as uint64; it returns one of these, or None.

    Parameters
    ----------
    python : function
        What does the same where nothing is compiled.
    literal : bool
        Whether the first argument is a number written in the kernel, which is given as such.
    """
    return lambda emit: python if DISABLED else _Intrinsic(emit, literal)


class _Intrinsic:
    """What emits code."""

    def __init__(self, emit, literal):
        self._emit, self._literal = emit, literal

    @functools.cached_property
    def _numba_type_(self):
        """The type that Numba gives it in kernels that call it."""
        from numba.core.registry import cpu_target
        from numba.extending import intrinsic

        made = intrinsic(prefer_literal=self._literal)(self._typed())
        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()
        return cpu_target.typing_context.resolve_value_type(made)

    def _typed(self):
        """Return what tells Numba the types of arguments, and emits the code for them."""
        from numba import types
        from numba.core.errors import TypingError

        @functools.wraps(self._emit)  # which has the names of arguments
        def typed(typing, *given):
            if any(isinstance(kind, types.Array) and kind.layout != "C" for kind in given):
                raise TypingError("arrays must be in C order")
            kinds = [kind if isinstance(kind, types.Array) else types.uint64 for kind in given]
            if self._literal:
                kinds[0] = given[0]
            return types.uint64(*kinds), generate

        def generate(context, builder, signature, args):
            given = list(args)
            for n, kind in enumerate(signature.args):
                if isinstance(kind, types.Array):
                    given[n] = context.make_array(kind)(context, builder, args[n])
                elif isinstance(kind, types.Literal):
                    given[n] = kind.literal_value
            result = self._emit(builder, *given)
            return context.get_constant(types.uint64, 0) if result is None else result

        return typed
