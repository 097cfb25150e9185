"""Text of flights: what its rows and features are."""

import sys
import zipfile

import pytest

FLIGHTS = """month,day,hour,origin,dest,carrier,tailnum,flight,arr_delay
1,1,5,JFK,MIA,AA,N1,11,30
1,1,5,JFK,MIA,UA,N2,12,-6
1,1,6,EWR,MIA,AA,N1,11,NA
1,2,5,JFK,BOS,UA,N3,13,
"""


@pytest.mark.parametrize(
    ("label", "labels", "ones", "shared"),
    [
        ("late", {"1", "-1"}, 13, 9),
        ("delay", {"0.5", "-0.1"}, 13, 9),
        ("carrier", {"1", "2"}, 9, 9),
    ],
)
def test_flights_that_arrived(
    make_flights, tmp_path, monkeypatch, capsys, label, labels, ones, shared
):
    archive, out = tmp_path / "flights.csv.zip", tmp_path / "out.svm"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("flights.csv", FLIGHTS)
    monkeypatch.setattr(sys, "argv", ["x", str(archive), str(out), "--label", label])
    make_flights.main()
    rows = [line.split() for line in out.read_text().splitlines()]
    assert {row[0] for row in rows} == labels
    columns = [[int(pair.removesuffix(":1")) for pair in row[1:]] for row in rows]
    assert all(own == sorted(set(own)) and len(own) == ones for own in columns)
    # two flights of a day, an hour and a route: all but what tells the carrier
    assert len(set(columns[0]) & set(columns[1])) == shared
    assert f'"rows": 2, "features": {2 * ones - shared}' in capsys.readouterr().out
