#!/usr/bin/env bash
# A sliding window on generated days: each day comes in, the oldest goes, and training starts warm.
# Usage: scripts/sliding_window.sh [DAYS [WINDOW]]    (5 days, a window of 3)
set -euo pipefail
. "$(dirname "$0")/venv.sh"
cd "$root"
command -v blocklinear > /dev/null || pip install --quiet --disable-pip-version-check .

days="${1:-5}" window="${2:-3}"
out="$(mktemp -d)"
trap 'rm -rf "$out"' EXIT

# Rows of one day: 20 of 200 features, whose weights drift from day to day.
day() {
    awk -v day="$1" -v rows=4000 'BEGIN {
        srand(day)
        for (r = 0; r < rows; r++) {
            score = 0; line = ""
            for (k = 0; k < 20; k++) {
                j = 10 * k + 1 + int(10 * rand()); value = sprintf("%.3f", rand())
                score += value * sin(j * j + day / 10)
                line = line " " j ":" value
            }
            print (score + rand() - 0.5 > 0 ? "+1" : "-1") line
        }
    }'
}

for today in $(seq "$days"); do
    day "$today" > "$out/today.svm"
    echo "day $today"
    if [ "$today" -gt 1 ]; then # what yesterday's model makes of today
        blocklinear predict "$out/today.svm" "$out/model" "$out/labels"
    fi
    if [ ! -d "$out/store" ]; then
        blocklinear split "$out/today.svm" "$out/store" --blocks 4 --quiet
    else
        blocklinear add "$out/store" "$out/today.svm" --batch "b$today" --blocks 4 --quiet
    fi
    if [ "$today" -gt "$window" ]; then
        blocklinear remove "$out/store" --batch "b$((today - window))"
    fi
    blocklinear train "$out/store" "$out/model" --warm-start --group 4 --quiet
    blocklinear gc "$out/store"
done
