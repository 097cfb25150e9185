#!/usr/bin/env bash
# Installs blocklinear with its test tools into .venv and runs every check.
set -euo pipefail
. "$(dirname "$0")/venv.sh"
cd "$root"
pip install --quiet --disable-pip-version-check --editable '.[test]'

ruff check .
ruff format --check .
mypy
python -m pytest -q "$@"
# once without compilation: there, an index out of range is an error and not garbage
NUMBA_DISABLE_JIT=1 python -m pytest -q tests/kernels tests/text/test_digest.py
