#!/usr/bin/env bash
# Installs blocklinear with its test tools into .venv and runs every check.
# BLOCKLINEAR_EXTENSIVE=1 lets the tests that try many cases try several times as many;
# BLOCKLINEAR_TRIALS=100000 sets the number of cases of those that draw their own.
set -euo pipefail
. "$(dirname "$0")/venv.sh"
cd "$root"
pip install --quiet --disable-pip-version-check --editable '.[test]'

unset PYTHONDONTWRITEBYTECODE # tests start the program often
# Files come and go by the ten thousand: in memory, if there is room, that takes a third of the time.
room="$(df --output=avail --block-size=1G /dev/shm 2>/dev/null | tail -n 1)" || room=0
if [ "${room:-0}" -ge 4 ]; then
    TMPDIR="$(mktemp -d /dev/shm/blocklinear-tests.XXXXXX)"
    export TMPDIR
    trap 'rm -rf "$TMPDIR"' EXIT
fi
ruff check .
ruff format --check .
mypy &
blocklinear warmup
wait $!
python bench/guard.py # what training costs, in counts
parallel=(--numprocesses 2 --dist worksteal)
python -m pytest -q "${parallel[@]}" "$@"
# once without compilation: there, an index out of range is an error and not garbage
NUMBA_DISABLE_JIT=1 BLOCKLINEAR_TRIALS=200 python -m pytest -q "${parallel[@]}" \
    -m "not long" tests/kernels tests/store/test_codec.py \
    tests/text/test_{norms,reshape,tokenizer}.py
