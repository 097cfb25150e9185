"""Blocks on disk: made once by `split`, checked at every read."""

from blocklinear.store.manifest import BlockRecord, Manifest
from blocklinear.store.store import BlockStore, VerifyReport

__all__ = ["BlockRecord", "BlockStore", "Manifest", "VerifyReport"]
