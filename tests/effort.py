"""How much the tests try: with ``BLOCKLINEAR_EXTENSIVE=1`` two or three times as much."""

import os

from hypothesis import settings

EXTENSIVE = os.environ.get("BLOCKLINEAR_EXTENSIVE") == "1"


def examples(n):
    """Settings of a test that draws `n` examples, or three times as many."""
    return settings(max_examples=3 * n if EXTENSIVE else n, deadline=None)
