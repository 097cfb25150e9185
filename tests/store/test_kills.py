"""A process killed while it changes a store leaves one that is whole; see kills.py."""

import json
import subprocess
import sys
from pathlib import Path


def test_kills_at_any_moment():
    command = [sys.executable, str(Path(__file__).with_name("kills.py"))]
    done = subprocess.run(
        [*command, "--random", "2", "--every", "3"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    kills = json.loads(done.stdout)
    assert set(kills) == {"add", "remove", "gc", "compact"}
    assert sum(found["at operations"] for found in kills.values()) >= 40
