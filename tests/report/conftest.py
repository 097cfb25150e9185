import json

import pytest


def outer(number, seconds, primal=10.0, gap=0.1, certified=False, **fields):
    return {
        "event": "outer", "outer": number, "seconds": seconds, "primal": primal, "gap": gap,
        "certified": certified, **fields,
    }  # fmt: skip


@pytest.fixture
def log(tmp_path):
    def write(*events, name="run.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return write
