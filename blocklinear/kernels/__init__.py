"""Kernels that Numba compiles: arrays in, arrays out."""
