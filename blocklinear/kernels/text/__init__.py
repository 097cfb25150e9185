"""LIBSVM text to numbers, by bytes."""
