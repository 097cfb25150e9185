"""Write LIBSVM text of names of files: short rows of few words, and very many of them.

    lz4 -dc Contents-all.lz4 | python bench/make_file_names.py OUT --of SECTION [--every N]

Reads the contents of a Debian archive, as `apt-file` fetches them: a file and the packages that
have it, each with its section, on every line. The label is 1 where the first is in the section, -1
elsewhere. The words and numbers in the name are the features, in order of appearance, of value 1.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

_WORD = re.compile(r"[a-z]+|[0-9]+")


def rows(lines: Iterable[str], of: str, numbers: dict[str, int]) -> Iterator[str]:
    """Yield a row of each line; words that were not met before are given the next numbers."""
    for line in lines:
        name, _, packages = line.rstrip().rpartition(" ")
        *_, section, _ = ("", *packages.split(",")[0].split("/"))
        words = _WORD.findall(name.lower())
        own = sorted({numbers.setdefault(word, len(numbers) + 1) for word in words})
        yield " ".join(["1" if section == of else "-1", *(f"{number}:1" for number in own)])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--of", required=True, metavar="SECTION", help="label 1")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take one line in N")
    args = parser.parse_args()
    numbers: dict[str, int] = {}
    n_rows = 0
    sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
    some = (line for k, line in enumerate(sys.stdin) if k % args.every == 0)
    with open(args.out, "w") as stream:
        for row in rows(some, args.of, numbers):
            stream.write(row + "\n")
            n_rows += 1
    found = {"rows": n_rows, "features": len(numbers), "bytes": args.out.stat().st_size}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
