"""Kernels of blocks: encoding, routing, numbering of features, norms."""
