#!/usr/bin/env bash
# Builds the documentation as a web site in build/site; every warning is an error.
set -euo pipefail
. "$(dirname "$0")/venv.sh"
cd "$root"
pip install --quiet --disable-pip-version-check --no-compile --editable '.[docs]'
python scripts/reference.py --check
NO_MKDOCS_2_WARNING=true mkdocs build --quiet --strict --config-file scripts/mkdocs.yml
echo "built build/site/index.html"
