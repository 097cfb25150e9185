"""What follows from which blocks a part has: its groups, and its orders of rows."""

import hashlib

import numpy as np

from blocklinear.training.rounds.alpha import Blocks


def groups_of_part(n_blocks: int, group: int) -> list[Blocks]:
    """Return the places in a part of the blocks of each block step, at most `group` of them."""
    places = np.array_split(np.arange(n_blocks), -(-n_blocks // group))
    return [tuple(some.tolist()) for some in places]


def seed_of_part(seed: int, outer: int, number: int) -> int:
    """Return the seed of the orders of rows in a part."""
    digest = hashlib.sha256(f"{seed} {outer} {number}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
