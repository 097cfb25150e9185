import json

import pytest

from blocklinear.errors import InputError
from blocklinear.report import table
from blocklinear.report.follow import TableOfLog, follow

from .conftest import outer

DONE = {"gap": 0.001, "gap_goal": 0.01, "certified": True}


class Steps:
    """Does one thing more each time `follow` waits; ends it when there is none."""

    def __init__(self, *steps):
        self._steps = list(steps)

    def __call__(self):
        if not self._steps:
            raise KeyboardInterrupt
        self._steps.pop(0)()


def append(path, *events):
    with path.open("a") as stream:
        stream.writelines(f"{json.dumps(event)}\n" for event in events)


def lengths(curves):
    return [len(curve.events) for curve in curves]


def test_logs_are_shown_each_time_they_grow_until_their_goal(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    seen = []
    wait = Steps(
        lambda: append(one, outer(1, 1)),
        lambda: None,
        lambda: append(two, {"event": "warning", "message": "x"}),
        lambda: append(one, outer(2, 2, **DONE)),
        lambda: append(two, outer(1, 1, **DONE)),
    )
    follow([one, two], lambda curves: seen.append(lengths(curves)), wait)
    assert seen == [[1], [1], [2], [2, 1]]


def test_a_run_without_a_goal_is_followed_until_an_interrupt(log):
    path = log(outer(1, 1, gap=1e-9, certified=True))
    with pytest.raises(KeyboardInterrupt):
        follow([path], lambda curves: None, Steps(lambda: append(path, outer(2, 2))))


def test_what_is_no_log_is_refused(log):
    with pytest.raises(InputError, match="not a line of a run log"):
        follow([log("1 1:1")], lambda curves: None, Steps())


FIELDS = {
    "load_s": 0.5, "wait_s": 0.25, "solve_s": 0.125, "bytes_read": 1, "dual": 9.0, "violation": 0.5,
    "n_sv": 12, "n_models": 1, "steps": 3, "rss_bytes": 4,
}  # fmt: skip


def test_the_table_has_a_line_for_each_outer_iteration(log):
    lines = []
    path = log(outer(1, 1, **FIELDS, accuracy=0.5))
    end = FIELDS | {"accuracy": 0.75} | DONE
    follow([path], TableOfLog(lines.append), Steps(lambda: append(path, outer(2, 2, **end))))
    assert lines[0].split() == [
        "outer", "seconds", "load", "wait", "solve", "primal", "dual", "gap", "violation", "SV",
        "accuracy",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines] == ["outer", "1", "2"]
    assert lines[2].split() == [
        "2", "2.00", "0.50", "0.25", "0.12", "10", "9", "1.00e-03*", "5.00e-01", "12", "0.75",
    ]  # fmt: skip


def test_a_run_that_begins_anew_has_a_header(log):
    lines = []
    path = log(outer(1, 1), outer(2, 2))
    wait = Steps(lambda: append(path, outer(1, 1, gap=0.5)), lambda: append(path, outer(2, 9)))
    with pytest.raises(KeyboardInterrupt):
        follow([path], TableOfLog(lines.append), wait)
    assert [line.split()[0] for line in lines] == ["outer", "1", "2", "outer", "1", "2"]


def test_a_log_that_lacks_numbers(log):
    lines = []
    with pytest.raises(KeyboardInterrupt):
        follow([log(outer(1, 1, primal=None))], TableOfLog(lines.append), Steps())
    assert "nan" in lines[1]


def test_each_column_is_explained(log):
    lines = []
    with pytest.raises(KeyboardInterrupt):
        follow([log(outer(1, 1, accuracy=0.5))], TableOfLog(lines.append), Steps())
    names = " ".join(name for name, _ in table.COLUMNS).replace(", mse", "")
    assert lines[0].split() == names.split()
    assert max(map(len, table.COLUMNS_HELP.splitlines())) <= 76
