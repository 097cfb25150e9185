"""Where rows came from: the source and the line of the first row with a label."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import InputError, LabelError
from blocklinear.numerals import format_number
from blocklinear.store.blocks import BlockFile
from blocklinear.store.manifest import Manifest
from blocklinear.store.merging import decoded_rows
from blocklinear.store.store import BlockStore


@contextmanager
def label_places(store: BlockStore) -> Iterator[None]:
    """Add to a `LabelError` where the first row with the label is.

    Only then is the store read: of each block as much as there is before its first such row.
    """
    try:
        yield
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
            f"{error.what} ({such_as}first in {place(store.manifest, row, batch)})", error.fix
        ) from None


def first_row(
    store: BlockStore, wanted: Callable[[NDArray[np.float64]], NDArray[np.bool_]]
) -> tuple[int, str, float] | None:
    """Return number, batch and label of the first row whose label is `wanted`, None without one.

    Raises
    ------
    DamagedError, StorageError
    """
    found = []
    for record in store.manifest.blocks:
        block = BlockFile(store.blocks_folder, record)
        for rows in (decoded_rows(block, chunk, store.manifest) for chunk in block.chunks()):
            where = np.flatnonzero(wanted(rows.labels))
            if len(where):
                k = where[np.argmin(rows.numbers[where])]
                found.append((int(rows.numbers[k]), record.batch, float(rows.labels[k])))
                break
    return min(found, default=None)


def place(manifest: Manifest, row: int, batch: str) -> str:
    """Return how to find a row in the text: source and line, or row if lines were left out.

    Where batches were forgotten, or others came between those that were made one, rows are no
    longer known by their place in a source.
    """
    sources = [source for known in manifest.batches for source in known["sources"]]
    dates = [known["date"] for known in manifest.batches]
    in_order = all(before < after for before, after in pairwise(dates))
    if not in_order or sum(source["rows"] for source in sources) != manifest.next_row:
        return f"batch {batch}"
    for source in sources:
        if row < source["rows"]:
            whole = source["rows"] == source["lines"]
            return f"{'line' if whole else 'row'} {row + 1} of {source['path']}"
        row -= source["rows"]
    return f"batch {batch}"
