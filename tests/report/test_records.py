import json
import math

import pytest

from blocklinear.errors import InputError, StorageError
from blocklinear.events import GoesOver, OneLabel, SlowlyConverging, Warned
from blocklinear.report.records import best_primal, read_log, record_of

from .conftest import outer


def times(curve):
    return [(event["outer"], event["seconds"]) for event in curve.events]


def test_reads_the_outer_iterations(log):
    warning = {"event": "warning", "message": "slow"}
    curve = read_log(log(outer(1, 0.5), warning, outer(2, 1.0)))
    assert (curve.name, times(curve)) == ("run", [(1, 0.5), (2, 1.0)])


@pytest.mark.parametrize("kind", [Warned, SlowlyConverging, OneLabel])
def test_warnings_of_every_kind_are_logged(kind):
    assert record_of(kind("slow")) == {"event": "warning", "message": "slow"}


def test_classes_are_read_to_the_last_digit(tmp_path):
    labels = [2**60 + 1, 2**64 - 1, -(10**30)]
    (tmp_path / "log").write_text(json.dumps(outer(1, 0.5) | {"labels": labels}) + "\n")
    assert read_log(tmp_path / "log").events[0]["labels"] == labels


def test_that_newton_steps_go_on_is_logged():
    assert record_of(GoesOver("on")) == {"event": "goes_over", "message": "on"}


def test_of_several_runs_the_last_counts(log):
    curve = read_log(log(outer(1, 0.5), outer(2, 1.0), outer(1, 0.25), outer(2, 0.75)))
    assert times(curve) == [(1, 0.25), (2, 0.75)]


def test_a_resumed_run_goes_on_where_its_checkpoint_was(log):
    curve = read_log(log(outer(1, 1.0), outer(2, 2.0), outer(3, 3.0), outer(3, 0.5), outer(4, 1.5)))
    assert times(curve) == [(1, 1.0), (2, 2.0), (3, 2.5), (4, 3.5)]


def test_a_run_resumed_twice(log):
    curve = read_log(log(outer(1, 1.0), outer(2, 0.5), outer(3, 0.25), outer(4, 1.25)))
    assert times(curve) == [(1, 1.0), (2, 1.5), (3, 1.75), (4, 2.75)]


def test_a_line_that_a_crash_cut_short_is_passed_over(log):
    curve = read_log(log(outer(1, 0.5), '{"event": "outer", "ou', outer(2, 1.0)))
    assert times(curve) == [(1, 0.5), (2, 1.0)]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "has no outer iteration"),
        (["1 1:0.5 2:1"], ":1: is not a line of a run log"),
        ([outer(1, 0.5), "", outer(2, 1.0)], ":2: is not a line of a run log"),
        ([{"event": "warning", "message": "x"}], "has no outer iteration"),
        (["{}"], "has no outer iteration"),
        ([outer(1, 0.5), {"event": "start"}], "its last run has no outer iteration"),
        ([outer(1, "soon")], ":1: 'seconds' is missing or not a number"),
        ([{"event": "outer", "outer": 1, "seconds": 1}], ":1: 'primal' is missing"),
        ([outer(1, None)], ":1: 'seconds' is missing"),
        ([json.dumps(outer(1, 2)).replace("2", "9" * 309)], ":1: 'seconds' is missing or not a"),
        ([json.dumps(outer(1, 2)).replace("2", "9" * 5000)], ":1: 'seconds' is missing or not a"),
        ([json.dumps(outer(1, 2)).replace("2", "1e999")], ":1: 'seconds' is missing or not a"),
        ([outer(1, True)], ":1: 'seconds' is missing or not a"),
        (['{"a":' + "[" * 100_000], "has no outer iteration"),
    ],
)
def test_what_is_no_log_is_refused(log, lines, said):
    with pytest.raises(InputError, match=said) as caught:
        read_log(log(*lines))
    assert caught.value.fix


def test_a_log_that_is_not_there(tmp_path):
    with pytest.raises(StorageError, match="none: read failed"):
        read_log(tmp_path / "none")


def test_the_best_primal_is_one_that_was_proven(log):
    first = read_log(log(outer(1, 1, primal=5.0), outer(2, 2, primal=8.0, certified=True)))
    second = read_log(log(outer(1, 1, primal=None), outer(2, 2, primal=7.0), name="b"))
    assert best_primal([first, second]) == 8.0
    assert best_primal([second]) == 7.0
    assert math.isnan(best_primal([]))


def test_passes_count_those_of_certificates(log):
    events = [
        outer(1, 1, certificates=0, bytes_read=100),
        outer(2, 2, certificates=1, bytes_read=20),
        outer(3, 3, certificates=1),
        outer(7, 4, certificates=0, bytes_read=None),
    ]
    curve = read_log(log(*events))
    assert curve.positions("seconds") == [1, 2, 3, 4]
    assert curve.positions("passes") == [1, 3, 5, 9]
    assert curve.positions("bytes") == [100, 120, 120, 120]


def test_values_that_are_no_numbers(log):
    curve = read_log(log(outer(1, 1, gap=None), outer(2, 2, accuracy=True), outer(3, 3, gap=0.5)))
    assert curve.values("gap") == [None, 0.1, 0.5]
    assert curve.values("accuracy") == [None, None, None]


def test_a_curve_for_each_cost(log):
    costs = {"costs": [0.1, 1.0], "gap_goal": 0.01}
    events = [
        outer(1, 1, **costs, gaps=[0.25, None]),
        outer(2, 2, **costs, gaps=[0.125, 0.5], certified=True),
        outer(3, 3, **costs, gaps=[0.125]),
    ]
    small, large = read_log(log(*events)).by_cost()
    assert (small.cost, large.cost) == (0.1, 1.0)
    assert small.values("gap") == [0.25, 0.125, 0.125]
    assert large.values("gap") == [None, 0.5, None]
    assert large.goal("gap") == 0.01
    assert small.positions("seconds") == [1, 2, 3]
    assert [event["certified"] for event in small.events] == [False, True, False]


@pytest.mark.parametrize("costs", [None, [], [1.0], ["a", "b"], [0.1, None], 3])
def test_one_curve_where_there_are_not_several_costs(log, costs):
    curve = read_log(log(outer(1, 1, costs=costs, gaps=[0.1, 0.2])))
    assert curve.by_cost() == [curve]


@pytest.mark.parametrize(
    ("fields", "ended"),
    [
        ({"gap": 0.01, "certified": True, "gap_goal": 0.01}, True),
        ({"gap": 0.02, "certified": True, "gap_goal": 0.01}, False),
        ({"gap": 0.01, "certified": False, "gap_goal": 0.01}, False),
        ({"gap": None, "certified": True, "gap_goal": 0.01}, False),
        ({"gap": 0.01, "certified": True}, False),
        ({"violation": 0.1, "certified": True, "violation_goal": 0.1}, True),
        ({"violation": 0.2, "certified": True, "gap_goal": 1.0, "violation_goal": 0.1}, False),
        ({"violation": 0.1, "certified": True, "gap_goal": 1.0, "violation_goal": 0.1}, True),
    ],
)
def test_a_run_ends_where_its_goal_is_reached(log, fields, ended):
    assert read_log(log(outer(1, 1, **fields))).has_ended == ended


def test_what_never_ends_is_no_log():
    with pytest.raises(InputError, match="/dev/zero:1: is not a line of a run log"):
        read_log("/dev/zero")
