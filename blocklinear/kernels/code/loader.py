"""LLVM's loader of machine code that Numba compiled, without Numba."""

import builtins
import ctypes
import functools
import importlib.machinery
import importlib.util
import sys
from pathlib import Path


@functools.cache
def machine():
    """Return what code is compiled for."""
    binding = _llvm()
    features = binding.get_host_cpu_features().flatten()
    return binding.get_default_triple(), binding.get_host_cpu_name(), features


def load(function, code, wrapper, environment):
    """Return what calls machine code, which Numba compiled from a function.

    `wrapper` is the name of what is called, with a tuple of arguments; `environment` that of the
    place for objects that code uses, of which kernels have none.
    """
    binding = _llvm()
    engine, functions = _engine()
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address, place = (
        engine.get_function_address(wrapper), engine.get_global_value_address(environment),
    )  # fmt: skip
    if not address or not place:
        raise RuntimeError(f"{wrapper} is not in the machine code that was kept of it")
    empty = functions.Environment({})
    ctypes.c_void_p.from_address(place).value = id(empty)
    module = sys.modules[function.__module__]
    return functions.make_function(module, function.__name__, "", address, empty, None)


@functools.cache
def _engine():
    """Return LLVM's loader, which knows what compiled code calls, and Numba's of functions.

    What it calls are functions in C, which are loaded without the rest of Numba, and Python's
    exceptions.
    """
    binding = _llvm()
    helpers, runtime, functions = map(
        _extension, ("_helperlib", "core.runtime._nrt_python", "_dynfunc")
    )
    runtime.memsys_use_cpython_allocator()
    called = helpers.c_helpers | functions.c_helpers
    symbols = {f"numba_{name}": at for name, at in called.items()}
    for name, at in runtime.c_helpers.items():
        symbols[name if name.startswith("_") else f"NRT_{name}"] = at
    for thing in vars(builtins).values():
        if isinstance(thing, type) and issubclass(thing, BaseException):
            symbols[f"PyExc_{thing.__name__}"] = id(thing)
    symbols["_Py_NoneStruct"] = id(None)
    for name, at in symbols.items():
        binding.add_symbol(name, at)
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    return engine, functions


def _llvm():
    """Return LLVM, or raise ImportError."""
    try:
        from llvmlite import binding
    except OSError as error:  # it would be taken for that of a file which is read or written
        raise ImportError(f"LLVM cannot be loaded: {error}") from error
    return binding


def _extension(name):
    """Return one of Numba's modules in C, without Numba."""
    whole = f"numba.{name}"
    if whole in sys.modules:
        return sys.modules[whole]
    packages = name.split(".")[:-1]
    folder = Path(importlib.util.find_spec("numba").origin).parent.joinpath(*packages)
    kind = importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES
    spec = importlib.machinery.FileFinder(str(folder), kind).find_spec(whole)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found
