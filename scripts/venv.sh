# Sourced by the other scripts: makes .venv in the project's root and puts it on the PATH.
# VENV names another folder.
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
VENV="${VENV:-$root/.venv}"
python="${PYTHON:-python3}"
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "blocklinear needs Python 3.11 or newer; set PYTHON to one" >&2
    exit 2
fi
if [ ! -x "$VENV/bin/pip" ]; then
    echo "making $VENV" >&2
    "$python" -m venv "$VENV"
fi
export PATH="$VENV/bin:$PATH"
