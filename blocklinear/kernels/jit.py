"""The decorator of every kernel, and where compiled kernels are kept.

Numba's own cache goes by the date of a kernel's file: it does not notice that a helper changed in
another. Two processes that compile one kernel for different types at a time may also leave it with
the code of the one under the types of the other. Here each overload, a kernel compiled for
arguments of some types, has a file of its own, which holds for one state of all sources.
"""

import contextlib
import functools
import inspect
import os
import sys
from hashlib import sha256
from pathlib import Path

from llvmlite import binding
from numba import config, njit
from numba.core import caching, codegen, environment

PACKAGE = Path(__file__).parents[1]


def kernel(function=None, **options):
    """Compile a function by Numba at its first call, without Python's lock, and keep the result.

    Parameters
    ----------
    function : function, optional
    **options
        More of those of `numba.njit`.
    """

    def compiled(function):
        # the wrapper for C, which nobody calls, takes a twentieth of the time of compiling
        dispatcher = njit(nogil=True, no_cfunc_wrapper=True, **options)(function)
        if dispatcher is not function:  # else NUMBA_DISABLE_JIT is set
            dispatcher._cache = _KernelCache(function)
        return dispatcher

    return compiled if function is None else compiled(function)


def sources() -> list[Path]:
    """Return the files that have a part in compiled code, in order."""
    return sorted((PACKAGE / "kernels").rglob("*.py"))


@functools.cache
def state_of_sources() -> str:
    """Return a digest of all files that have a part in compiled code, 64 hexadecimal digits."""
    digest = sha256()
    for file in sources():
        digest.update(sha256(file.read_bytes()).digest())
    return digest.hexdigest()


class _Files(caching.IndexDataCacheFile):
    """The files of one kernel: one for each overload, and no index that processes may fight for."""

    def __init__(self, name, folders):
        super().__init__(folders[0], name, state_of_sources())
        self._folders = folders

    def _place(self, key):
        """Return the name of an overload's file, and what the file ends with."""
        signature, machine, _ = key
        name = sha256(repr((signature, machine)).encode()).hexdigest()[:16]
        state = repr((self._version, self._source_stamp, key))
        return self._index_name.removesuffix("nbi") + f"{name}.nbc", sha256(state.encode()).digest()

    def find(self, key):
        """Return the path of an overload's file; None if there is none, or of other sources."""
        name, state = self._place(key)
        for folder in self._folders:
            with contextlib.suppress(OSError), open(Path(folder, name), "rb") as file:
                file.seek(-len(state), os.SEEK_END)
                if file.read() == state:
                    return file.name
        return None

    def flush(self):
        """Leave the files: the next ones take their places."""

    def save(self, key, data):
        """Write an overload as a whole: others may read it meanwhile."""
        name, state = self._place(key)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(self._dump(data) + state)

    def load(self, key):
        """Return an overload; None if it is not there."""
        found = self.find(key)
        with contextlib.suppress(OSError):  # it may be gone by now
            if found:
                with _replaced(environment, "_rebuild_env", _environment):
                    return self._load_data(os.path.abspath(found))
        return None


@contextlib.contextmanager
def _replaced(place, name, value):
    """Replace an attribute for a while: Numba's lock is held."""
    usual = getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, usual)


def _environment(module, constants, name):
    """Return what compiled code holds of Python's objects: its constants, as it uses no globals.

    Numba imports the module that the code was compiled from, and so much of itself.
    """
    found = environment.lookup_environment(name)
    if found is None:
        imported = sys.modules.get(module)
        found = environment.Environment({} if imported is None else vars(imported))
        found.consts[:], found.env_name = constants, name
        environment.Environment._memo[name] = found
    return found


class _Library(codegen.JITCodeLibrary):
    """Machine code from the cache; what others may inline of it is parsed when they do.

    With `_environment` that takes half of the time of loading a kernel.
    """

    _bitcode = None

    @classmethod
    def _unserialize(cls, codegen, state):
        name, kind, (machine_code, bitcode) = state
        library = super()._unserialize(codegen, (name, kind, (machine_code, _no_bitcode())))
        library._shared_module, library._bitcode = None, bitcode
        return library

    def get_pointer_to_function(self, name):
        """Return the address of a function that is there.

        LLVM calls Python for the machine code. An exception that a signal raises then is dropped,
        and the function is not there: Numba would go on to write to address 0.
        """
        address = self._codegen._engine.get_function_address(name)
        if not address:
            raise RuntimeError(f"{name} was not loaded: something ended it, such as a signal")
        return address

    def _get_module_for_linking(self):
        if self._bitcode is not None:
            self._shared_module = binding.parse_bitcode(self._bitcode)
            self._codegen._engine._load_defined_symbols(self._shared_module)
            self._bitcode = None
        return super()._get_module_for_linking()


@functools.cache
def _no_bitcode():
    return binding.parse_assembly("").as_bitcode()


class _Folder(caching.InTreeCacheLocator):
    """The folder next to a kernel's file, whether it can be written to or not."""

    @classmethod
    def from_function(cls, function, file):
        return cls(function, file)


class _Overloads(caching.CompileResultCacheImpl):
    """How Numba keeps overloads, and where: nowhere new if no folder can be written to."""

    _locator_classes = [*caching.CompileResultCacheImpl._locator_classes, _Folder]  # noqa: RUF012

    def rebuild(self, target_context, payload):
        """Return an overload as it was when it was kept."""
        with _replaced(target_context.codegen(), "_library_class", _Library):
            return super().rebuild(target_context, payload)


class _KernelCache(caching.FunctionCache):
    """Numba's cache of one kernel, but for when and where an overload is found.

    Overloads are written to the first folder that can be, and read also from where an image may
    have them that was made by somebody else: NUMBA_CACHE_DIR, and the folder next to the kernels.
    """

    _impl_class = _Overloads

    def __init__(self, function):
        super().__init__(function)
        file = inspect.getfile(function)
        given = [caching.UserProvidedCacheLocator] if config.CACHE_DIR else []
        readable = [kind(function, file).get_cache_path() for kind in (*given, _Folder)]
        self._cache_file = _Files(
            f"{Path(file).stem}.{function.__qualname__}-{sys.implementation.cache_tag}",
            [*dict.fromkeys([self._cache_path, *readable])],
        )

    def holds(self, signature, codegen):
        """Return whether an overload is kept."""
        return self._cache_file.find(self._index_key(signature, codegen)) is not None

    def save_overload(self, signature, data):
        """Keep an overload, if the folder can be written to."""
        with contextlib.suppress(OSError):
            super().save_overload(signature, data)
