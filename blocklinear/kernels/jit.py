"""The decorator of every kernel: Numba compiles it once on a machine; it is called without Numba.

To import Numba takes longer than all else that a command does before its work, and 30 MB. So the
machine code of an overload, a kernel for arguments of some types, is kept in a file of its own,
which holds for one state of all sources. LLVM loads it, and it is called as Numba would call it.
Numba is imported where an overload has to be compiled.
"""

import functools
import json
import sys
import threading
from collections.abc import Callable
from hashlib import sha256

import numpy as np

from blocklinear.kernels.code import kept, loader
from blocklinear.kernels.code.intrinsics import DISABLED
from blocklinear.kernels.code.signatures import numba_types, signature_of

announce: Callable[[], object] | None = None
"""Called, if it is not None, before an overload is compiled, which takes seconds."""
_ENDING = ".kernel"
_lock = threading.RLock()


def kernel(function=None, **options):
    """Compile a function by Numba at its first call, without Python's lock, and keep the result.

    More options of `numba.njit` may be given.
    """
    if function is None:
        return functools.partial(kernel, **options)
    return function if DISABLED else Kernel(function, options)


class Kernel:
    """A function that is compiled for the types of arguments that it is called with.

    Attributes
    ----------
    py_func : function        as it was written
    overloads : dict          what to call for each signature, the types of arguments as
                              `signature_of` writes them
    n_loaded : int            of these, how many were compiled before
    """

    def __init__(self, function, options):
        functools.update_wrapper(self, function)
        self.py_func, self._options = function, options
        self.overloads, self.n_loaded = {}, 0
        self._by_kinds = {}

    def __call__(self, *args):
        """Call the overload for these arguments, compiled if there is none."""
        kinds = _kinds_of(args)
        found = self._by_kinds.get(kinds)
        if found is None:
            found = self.overload(signature_of(args))
            self._by_kinds[kinds] = found
        return found(*args)

    def __reduce__(self):
        return self.__qualname__

    def overload(self, signature):
        """Return what to call for a signature, loaded or compiled."""
        with _lock:
            if not self.load(signature):
                self._compile(signature)
            return self.overloads[signature]

    def load(self, signature):
        """Load an overload if it is kept; return whether it is there."""
        with _lock:
            if signature not in self.overloads:
                data = kept.read(self._file_name(signature))
                if data is None:
                    return False
                header, code = data.split(b"\n", 1)
                self.overloads[signature] = loader.load(self.py_func, code, **json.loads(header))
                self.n_loaded += 1
            return True

    def is_kept(self, signature):
        """Return whether an overload is kept."""
        return kept.read(self._file_name(signature)) is not None

    @functools.cached_property
    def dispatcher(self):
        """What Numba makes of the function."""
        from numba import njit

        # the wrapper for C, which nobody calls, takes a twentieth of the time of compiling
        return njit(nogil=True, no_cfunc_wrapper=True, **self._options)(self.py_func)

    @property
    def _numba_type_(self):
        """The type that Numba gives it in kernels that call it."""
        from numba import types

        return types.Dispatcher(self.dispatcher)

    def _compile(self, signature):
        """Compile an overload, and keep it if a folder can be written to."""
        if announce is not None:
            announce()
        types = numba_types(signature)
        self.dispatcher.compile(types)
        compiled = self.dispatcher.overloads[types]
        description = compiled.fndesc
        if compiled.environment is not None and compiled.environment.consts:
            raise TypeError(f"{self.__qualname__} uses objects of Python, which kernels do not")
        names = {
            "wrapper": description.llvm_cpython_wrapper_name, "environment": description.env_name,
        }  # fmt: skip
        code = compiled.library._get_compiled_object()
        self.overloads[signature] = loader.load(self.py_func, code, **names)
        kept.keep(self._file_name(signature), json.dumps(names).encode() + b"\n" + code)

    def _file_name(self, signature):
        module = self.py_func.__module__.removeprefix("blocklinear.kernels.")
        key = sha256(repr((signature, sys.implementation.cache_tag, loader.machine())).encode())
        return f"{module}.{self.py_func.__qualname__}-{key.hexdigest()[:16]}{_ENDING}"


def _kinds_of(args):
    """Return what tells arguments of different types apart, without what their types are called."""
    return tuple([
        (a.dtype, a.ndim, a.flags.num) if type(a) is np.ndarray
        else _kinds_of(a) if type(a) is tuple else type(a)
        for a in args
    ])  # fmt: skip
