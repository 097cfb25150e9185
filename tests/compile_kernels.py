"""Compiles the kernels that most tests need, once, on all processors: run it before the tests.

Tests compile what is missing, but each process of theirs by itself, and at the same time.
"""

import os
from concurrent.futures import ThreadPoolExecutor

from blocklinear.cli.rehearsal import rehearse


def main():
    """Rehearse splitting, which the others need too, then the others side by side."""
    rehearse("split", "float64", quiet=True)
    parts = [(part, "float64") for part in ("crammer-singer", "many", "one", "pegasos")]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in [pool.submit(rehearse, *part, True) for part in [*parts, ("split", "float32")]]:
            done.result()


if __name__ == "__main__":
    main()
