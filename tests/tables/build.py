"""Small tables of all kinds of columns, written in all formats."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq

N_ROWS = 600


def make_table(seed=0, n_rows=N_ROWS, words=False):
    """A table with a column of each kind, some values missing, and a target `y`."""
    rng = np.random.default_rng(seed)
    kinds = {
        "age": pa.array(rng.integers(18, 90, n_rows), mask=rng.random(n_rows) < 0.1),
        "score": pa.array(np.round(rng.normal(size=n_rows), 3), mask=rng.random(n_rows) < 0.1),
        "city": pa.array(
            np.array(["Paris", "Rome", "Zürich", "a longer name than eight bytes"])[
                rng.integers(0, 4, n_rows)
            ],
            mask=rng.random(n_rows) < 0.1,
        ),
        "member": pa.array(rng.random(n_rows) < 0.5),
        "day": pa.array(rng.integers(18_000, 18_010, n_rows).astype(np.int32)).cast(pa.date32()),
        "code": pa.array(rng.integers(100, 110, n_rows)),
    }
    if words:
        texts = np.array(["red", "green", "blue"])
        kinds["tags"] = pa.array(
            [None if k == 3 else texts[rng.integers(0, 3, k)].tolist()
             for k in rng.integers(0, 4, n_rows)],
            pa.list_(pa.string()),
        )  # fmt: skip
    labels = (np.asarray(kinds["age"].fill_null(50)) + 5 * rng.normal(size=n_rows) > 50) * 1
    return pa.table({**kinds, "y": pa.array(labels)})


def write(table, path, rows_a_group=100):
    """Write a table in the format that the name of a file says."""
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows_a_group)
    elif path.suffix == ".feather":
        pa.feather.write_feather(table, path, chunksize=rows_a_group)
    elif path.suffix == ".arrows":
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, rows_a_group)
    elif path.suffix == ".gz":
        with pa.output_stream(path, compression="gzip") as stream:
            pa.csv.write_csv(table, stream)
    else:
        pa.csv.write_csv(table, path)
    return path
