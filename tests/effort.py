"""How much the tests try: with ``BLOCKLINEAR_EXTENSIVE=1`` two or three times as much.

``BLOCKLINEAR_TRIALS=100000`` sets how many cases are drawn by tests that draw their own.
"""

import os

from hypothesis import settings

EXTENSIVE = os.environ.get("BLOCKLINEAR_EXTENSIVE") == "1"


def trials(n):
    """Return how many cases a test draws that usually draws `n`."""
    return int(os.environ.get("BLOCKLINEAR_TRIALS", 3 * n if EXTENSIVE else n))


def examples(n):
    """Settings of a test that draws `n` examples, or three times as many."""
    return settings(max_examples=3 * n if EXTENSIVE else n, deadline=None)
