"""Numba kernels: arrays in, arrays out. They import numpy and numba, and not each other."""
