"""Where rows came from: the source and the line of the first row with a label."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from blocklinear.classes import code_text
from blocklinear.errors import InputError, LabelError, OneLabelError
from blocklinear.numerals import format_number
from blocklinear.store.store import BlockStore


@contextmanager
def label_places(store: BlockStore) -> Iterator[None]:
    """Tell of errors in labels what the store knows: names, and where the first such row is.

    Only for the latter rows are read: chunks that may begin before the first such row found so far.
    """
    try:
        yield
    except OneLabelError as error:
        raise OneLabelError(error.label, code_text(error.label, store.named)) from None
    except LabelError as error:
        label = error.label

        def wanted(labels: NDArray[np.float64]) -> NDArray[np.bool_]:
            return np.full(len(labels), True) if label is None else labels == label

        found = first_row(store, wanted)
        if found is None:
            raise
        row, batch, its_label = found
        such_as = "" if label is not None else f"such as {format_number(its_label)}, "
        raise InputError(
            f"{error.what} ({such_as}first in {store.manifest.place_of(row, batch)})", error.fix
        ) from None


def first_row(
    store: BlockStore, wanted: Callable[[NDArray[np.float64]], NDArray[np.bool_]]
) -> tuple[int, str, float] | None:
    """Return number, batch and label of the first row whose label is `wanted`, None without one.

    Raises DamagedError and StorageError.
    """
    from blocklinear.ingest.compact import decoded_rows  # late, as the next: for errors only
    from blocklinear.store.blocks import BlockFile
    from blocklinear.store.layout import Layout

    first = None
    for record in store.manifest.blocks:
        block = BlockFile(store.blocks_folder, record)
        for chunk in block.chunks():
            begins = Layout.read(chunk.data, chunk.rows, chunk.nnz).first_row
            if first is not None and begins > first[0]:
                continue
            rows = decoded_rows(block, chunk, store.manifest)
            where = np.flatnonzero(wanted(rows.labels))
            if len(where):  # numbers increase in a chunk, but not from one to the next
                found = (int(rows.numbers[where[0]]), record.batch, float(rows.labels[where[0]]))
                first = found if first is None else min(first, found)
    return first
