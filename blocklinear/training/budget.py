"""How many blocks a visit holds, and how many stay in memory, under the memory budget."""

from dataclasses import dataclass

from blocklinear.errors import MemoryBudgetError
from blocklinear.memory import PROCESS_BYTES, WEIGHT_VECTORS, format_size
from blocklinear.options import TrainOptions
from blocklinear.store.manifest import BlockRecord, Manifest
from blocklinear.training.problems import SQUARED_HINGE

NEWTON_VECTORS = 10
"""What Newton steps need beside these: two points, directions and residuals."""
_LOADED_ROW_BYTES = 32  # a row in a buffer: pointer, label, norm, number
_SOLVED_ROW_BYTES = 24  # a row being worked on: sign, alpha, place in the order


ENOUGH_BLOCKS = 16
"""Larger groups no longer converge in fewer outer iterations; memory pins blocks instead."""


@dataclass(frozen=True)
class MemoryPlan:
    """Blocks a visit, bytes for decoded blocks that stay in memory, and room for Newton steps."""

    group: int
    pin_bytes: int
    newton: bool


def plan_memory(manifest: Manifest, options: TrainOptions) -> MemoryPlan:
    """Divide the budget.

    A visit takes what was asked for, or all blocks if they fit, or up to `ENOUGH_BLOCKS`.

    Raises
    ------
    MemoryBudgetError
        If the budget does not hold what is needed; says the arithmetic and what would do.
    """
    n_blocks = len(manifest.blocks)
    fixed = PROCESS_BYTES + 8 * WEIGHT_VECTORS * (manifest.n_features + 1)
    if options.group is not None:
        group = min(options.group, n_blocks)
    else:
        group = _largest_group(manifest, options.memory_bytes - fixed)
        if group < n_blocks:
            group = min(group, ENOUGH_BLOCKS)
    needed = fixed + _group_bytes(manifest, max(group, 1))
    if group < 1 or needed > options.memory_bytes:
        vectors = format_size(needed - _group_bytes(manifest, max(group, 1)) - PROCESS_BYTES)
        raise MemoryBudgetError(
            f"the budget of {format_size(options.memory_bytes)} is too small: the program takes "
            f"{format_size(PROCESS_BYTES)}, {WEIGHT_VECTORS} weight vectors of "
            f"{manifest.n_features} features {vectors}, and {max(group, 1)} of {n_blocks} blocks "
            f"a visit, with the next visit's, {format_size(_group_bytes(manifest, max(group, 1)))}",
            f"give --memory {-(-needed >> 20) + 1}M or more"
            + (", or a smaller --group" if group > 1 else ", or split into more blocks"),
        )
    spare = options.memory_bytes - needed
    newton_bytes = 8 * NEWTON_VECTORS * (manifest.n_features + 1)
    newton = options.solver == SQUARED_HINGE and newton_bytes <= spare
    return MemoryPlan(group, spare - newton_bytes if newton else spare, newton)


def _group_bytes(manifest: Manifest, group: int) -> int:
    """Return what visits of the `group` largest blocks take, two buffers unless one holds all."""
    entry_bytes = 4 + (8 if manifest.dtype == "float64" else 4)

    def loaded(block: BlockRecord) -> int:
        return entry_bytes * block.nnz + _LOADED_ROW_BYTES * block.rows

    largest = sorted(manifest.blocks, key=loaded, reverse=True)[:group]
    buffers = 1 if group >= len(manifest.blocks) else 2
    in_buffers = buffers * sum(map(loaded, largest))
    reading = max((block.bytes for block in largest), default=0)
    return in_buffers + _SOLVED_ROW_BYTES * sum(block.rows for block in largest) + reading


def _largest_group(manifest: Manifest, spare_bytes: int) -> int:
    n_blocks = len(manifest.blocks)
    if _group_bytes(manifest, n_blocks) <= spare_bytes:
        return n_blocks
    low, high = 0, n_blocks - 1
    while low < high:
        middle = (low + high + 1) // 2
        if _group_bytes(manifest, middle) <= spare_bytes:
            low = middle
        else:
            high = middle - 1
    return low
