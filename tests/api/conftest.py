import pytest

import blocklinear

ROWS = "".join(f"{1 if i % 3 else -1} 1:{i % 7} {2 + i % 3}:{(i * 5) % 11}\n" for i in range(60))


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text(ROWS)
    return path


@pytest.fixture
def store(rows, tmp_path):
    return blocklinear.split(rows, tmp_path / "store", blocks=3, memory="300M")
