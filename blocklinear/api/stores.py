"""Text to stores."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from blocklinear.api.calling import options_of, takes, telling
from blocklinear.arguments import Default, Path
from blocklinear.columns import transpose as transposing
from blocklinear.columns.store import ColumnStore
from blocklinear.events import Listener
from blocklinear.ingest import add as adding
from blocklinear.ingest import split as splitting
from blocklinear.options import AddOptions, SplitOptions, TextOptions
from blocklinear.store.changes import locked
from blocklinear.store.store import BlockStore
from blocklinear.text import check as checking


@takes(SplitOptions, TextOptions)
def split(
    inputs: Path | Sequence[Path],
    store: str | os.PathLike[str],
    options: SplitOptions | None = None,
    listener: Listener | None = None,
    *,
    client: Any = None,
    verbose: bool = False,
    **settings: Any,
) -> BlockStore:
    """Split LIBSVM text into a store of randomly assigned, compressed blocks.

    The text is read once. Until the store is whole it lies in a hidden folder next to `store`,
    which is removed when anything goes wrong.

    Parameters
    ----------
    inputs : path or sequence of paths
        Files in order, plain or gz, bz2, xz, zst; ``-`` is standard input.
    store : path
        Folder to make.
    options : SplitOptions
    listener : callable
        Called with `SplitProgress` and `Warned`; without one, a `Warned` is a Python warning.
    client : distributed.Client or None
        Of a Dask cluster whose workers are to split; they reach the inputs and the folder of the
        store by the same paths. The store is the one that this machine would make with the same
        memory, which is that of each worker then: what was given, or else half of what the least
        of them has.
    verbose : bool
        Show a progress bar.
    **settings
        Fields of `SplitOptions` and `TextOptions`; they replace those of `options`. ``memory`` is
        the budget as a size.

    Returns
    -------
    BlockStore

    Raises
    ------
    WrongTypeError
        If an argument is of the wrong type, or an option is unknown.
    UsageError
        If there are no inputs.
    InputError
        If the text is malformed or holds no rows.
    MismatchError
        If `store` exists and `force` is not set, or it is something else than a store.
    BusyError
        If another process is splitting to `store`, or writing to it.
    MemoryBudgetError
        If training could not hold the weights of the features (see `TextOptions.max_features`), or
        the blocks asked for cannot all be open.
    ClusterError
        If a cluster cannot do the work, or is gone.
    StorageError

    Examples
    --------
    >>> import blocklinear
    >>> store = blocklinear.split("rows.svm", "store", blocks=4, memory="512M")
    >>> store
    BlockStore('...store': 216 rows, 13 features, 4 blocks)
    """
    chosen = options_of(SplitOptions, options, settings, split)
    with telling(listener, verbose) as tell:
        if client is None:
            return splitting.split(inputs, store, chosen, tell)
        from blocklinear.cluster import connect  # late: Dask belongs to an extra
        from blocklinear.cluster import split as on_cluster

        connect.check_client(client)
        if isinstance(chosen.text.memory_bytes, Default):
            text = replace(chosen.text, memory_bytes=connect.budget_of_worker(client))
            chosen = replace(chosen, text=text)
        return on_cluster.split(client, inputs, store, chosen, tell)


@takes(AddOptions, TextOptions)
def add(
    store: BlockStore | str | os.PathLike[str],
    inputs: Path | Sequence[Path],
    options: AddOptions | None = None,
    listener: Listener | None = None,
    *,
    verbose: bool = False,
    **settings: Any,
) -> BlockStore:
    """Add LIBSVM text to a store: all of its rows, or none if anything goes wrong.

    Rows go to new blocks. Index base, hashing, normalisation, precision, compression and seed are
    those of the store; there may be new features and new labels.

    Parameters
    ----------
    store : BlockStore or path
    inputs : path or sequence of paths
        Files in order, plain or gz, bz2, xz, zst; ``-`` is standard input.
    options : AddOptions
    listener : callable
        Called with `SplitProgress`, `Warned` and `BatchPresent`; without one, a `Warned` is a
        Python warning.
    verbose : bool
        Show a progress bar.
    **settings
        Fields of `AddOptions` and `TextOptions`; they replace those of `options`. ``memory`` is the
        budget as a size.

    Returns
    -------
    BlockStore
        The store with the batch.

    Raises
    ------
    WrongTypeError
        If an argument is of the wrong type, or an option is unknown.
    InputError
        If the text is malformed or holds no rows.
    MismatchError
        If the store has one of the inputs already, or another index base; if its rows have weights
        and these have none, or the other way round; with `AddOptions.if_absent`, if there is a
        batch of that name that has other rows.
    UsageError
        If there is a batch of that name, or there are no inputs.
    BusyError
        If another process writes to the store or trains on it.
    MemoryBudgetError
        If training could not hold the weights of the features.
    StorageError

    Examples
    --------
    >>> import blocklinear
    >>> store = blocklinear.split("rows.svm", "growing", blocks=4)
    >>> blocklinear.add(store, "more.svm", batch="tuesday")
    BlockStore('...growing': 270 rows, 13 features, 5 blocks)
    """
    chosen = options_of(AddOptions, options, settings, add)
    with telling(listener, verbose) as tell:
        return adding.add(store, inputs, chosen, tell)


@takes(TextOptions)
def check(
    inputs: Path | Sequence[Path],
    options: TextOptions | None = None,
    listener: Listener | None = None,
    *,
    verbose: bool = False,
    **settings: Any,
) -> checking.CheckReport:
    """Read LIBSVM text as `split` does, and report what it contains and its problems.

    Parameters
    ----------
    inputs : path or sequence of paths
        As for `split`.
    options : TextOptions
        How lines are read; `on_error` does not matter.
    listener : callable
        Called with `TextProgress`.
    verbose : bool
        Show a progress bar.
    **settings
        Fields of `TextOptions`; they replace those of `options`.

    Returns
    -------
    CheckReport

    Raises
    ------
    WrongTypeError
        If an argument is of the wrong type, or an option is unknown.
    UsageError
        If there are no inputs, or `index_base` is "auto" and one is a stream.
    StorageError
        If an input cannot be read.

    Examples
    --------
    >>> import blocklinear
    >>> found = blocklinear.check("rows.svm")
    >>> found.rows, found.labels, found.problems
    (216, {1.0: 98, -1.0: 118}, [])
    """
    chosen = options_of(TextOptions, options, settings, check)
    with telling(listener, verbose) as tell:
        return checking.check(inputs, chosen, tell)


def transpose(
    store: BlockStore | str | os.PathLike[str],
    memory: int | str | None = None,
    threads: int | None = None,
    listener: Listener | None = None,
    *,
    force: bool = False,
    verbose: bool = False,
) -> ColumnStore:
    """Make the columns of a store: its entries by feature, for programs that read it so.

    They are a cache in the folder of the store. What is there already is returned, unless rows
    have changed since. Training does without: it collects the columns that it works on from rows.

    Parameters
    ----------
    store : BlockStore or path
    memory : int or str
        Budget of the whole process in bytes, or as a size such as ``"512M"``; half of the memory of
        the machine or of its cgroup if None. The columns do not depend on it.
    threads : int
        Worker threads; one per processor if None.
    listener : callable
        Called with `TransposeProgress`.
    force : bool
        Make them anew, whatever there is.
    verbose : bool
        Show a progress bar.

    Returns
    -------
    ColumnStore

    Raises
    ------
    WrongTypeError
        If an argument is of the wrong type.
    DamagedError
        If it is no store, or a block is damaged.
    MemoryBudgetError
        If the budget is too small.
    BusyError
        If another process writes to the store or trains on it.
    StorageError

    Examples
    --------
    >>> import blocklinear
    >>> columns = blocklinear.transpose(blocklinear.split("rows.svm", "by-feature"))
    >>> columns
    ColumnStore('...columns': 13 features, 216 rows, 1 block)
    >>> columns.read(0).n_columns
    13
    """
    settings = {"memory": memory, "threads": threads}
    given = {name: value for name, value in settings.items() if value is not None}
    budget = options_of(TextOptions, None, given, transpose)
    with locked(store) as own, telling(listener, verbose) as tell:
        return transposing.transpose(
            own, budget.memory_bytes, budget.threads, tell, force=bool(force)
        )
