"""LIBLINEAR's programs ``train`` and ``predict``: their arguments, output and exit status."""
