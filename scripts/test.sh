#!/usr/bin/env bash
# Installs blocklinear with its test tools into .venv and runs every check.
# BLOCKLINEAR_EXTENSIVE=1 lets the tests that try many cases try several times as many;
# BLOCKLINEAR_TRIALS=100000 sets the number of cases of those that draw their own.
set -euo pipefail
. "$(dirname "$0")/venv.sh"
cd "$root"
unset PYTHONDONTWRITEBYTECODE # tests start the program often
pip=(pip install --quiet --disable-pip-version-check)
"${pip[@]}" --editable .
# Kernels are compiled while what the tests need is installed, of which most is never imported. The
# path, as the second installation replaces the first.
PYTHONPATH="$root" python -m blocklinear warmup &
warmup=$!
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
"${pip[@]}" --no-compile --editable '.[test]'

# Files come and go by the ten thousand: in memory, if there is room, that takes a third of the time.
room="$(df --output=avail --block-size=1G /dev/shm 2>/dev/null | tail -n 1)" || room=0
if [ "${room:-0}" -ge 4 ]; then
    TMPDIR="$(mktemp -d /dev/shm/blocklinear-tests.XXXXXX)"
    export TMPDIR
    trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$TMPDIR"' EXIT
fi
ruff check .
ruff format --check .
mypy
wait "$warmup"
python bench/guard.py # what training costs, in counts
parallel=(--numprocesses 2 --dist worksteal)
python -m pytest -q "${parallel[@]}" "$@"
# once without compilation: there, an index out of range is an error and not garbage
NUMBA_DISABLE_JIT=1 BLOCKLINEAR_TRIALS=200 python -m pytest -q "${parallel[@]}" \
    -m "not long" tests/kernels tests/store/test_codec.py \
    tests/text/test_{norms,reshape,tokenizer}.py
