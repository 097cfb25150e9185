"""How much the tests try: ``BLOCKLINEAR_EXTENSIVE=1`` makes it several times as much."""

import os

from hypothesis import settings

EXTENSIVE = os.environ.get("BLOCKLINEAR_EXTENSIVE") == "1"


def examples(n):
    """Settings of a test that draws `n` examples, or four times as many."""
    return settings(max_examples=4 * n if EXTENSIVE else n, deadline=None)
