"""The comparison on tables of clicks: what it writes for rivals, and how it scores."""

import numpy as np
import pytest

parquet = pytest.importorskip("pyarrow.parquet")


def test_a_table_as_text_of_vowpal_wabbit(clicks, make_clicks, tmp_path):
    table = make_clicks.make_part(np.random.default_rng(0), 60)
    parquet.write_table(table, tmp_path / "p.parquet")
    clicks.write_vw(tmp_path, tmp_path / "p.vw")
    lines = (tmp_path / "p.vw").read_text().splitlines()
    for line, row in zip(lines, table.to_pylist(), strict=True):
        label, numbers, categories = line.split("|")
        assert label == ("1 " if row["click"] else "-1 ")
        expected = [
            f"i{k}m" if row[f"i{k}"] is None else f"i{k}:{row[f'i{k}']}" for k in range(1, 14)
        ]
        assert numbers.split() == ["i", *expected]
        assert categories.split()[1:] == [f"c{k}={row[f'c{k}'] or 'missing'}" for k in range(1, 27)]
    assert clicks.labels_of(tmp_path).tolist() == table["click"].to_pylist()


def test_log_loss(clicks):
    found = clicks.log_loss(np.array([0, 1, 1]), np.array([0.5, 0.25, 1.0]))
    assert found == pytest.approx((np.log(2) + np.log(4)) / 3)
