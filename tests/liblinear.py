"""LIBLINEAR's own programs, where they are installed."""

import os
import shutil

import pytest


def liblinear_program(name):
    """Return the path of a program; without it skip the test, or fail it where it is required."""
    path = shutil.which(name)
    if path is None:
        if os.environ.get("BLOCKLINEAR_REQUIRE_LIBLINEAR") == "1":
            pytest.fail(f"{name} is not installed, and BLOCKLINEAR_REQUIRE_LIBLINEAR is 1")
        pytest.skip(f"{name} is not installed")
    return path
