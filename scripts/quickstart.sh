#!/usr/bin/env bash
# Installs blocklinear into .venv, then splits, trains and predicts the bundled a9a data.
set -euo pipefail
. "$(dirname "$0")/venv.sh"
cd "$root"
pip install --quiet --disable-pip-version-check .

out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT
timed() {
    echo
    echo "\$ blocklinear $*"
    local began ended
    began=$(date +%s.%N)
    blocklinear "$@"
    ended=$(date +%s.%N)
    awk -v a="$began" -v b="$ended" 'BEGIN { printf "(%.1f s)\n", b - a }'
}
echo "The first run compiles the kernels; later runs start at once." >&2
timed split tests/data/a9a.train.svm.bz2 "$out/a9a" --blocks 8 --quiet
timed train "$out/a9a" "$out/a9a.model" --quiet
timed predict tests/data/a9a.test.svm.bz2 "$out/a9a.model" "$out/a9a.labels"
