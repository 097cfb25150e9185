"""Commands keep to the least budget that they accept, in a cgroup of exactly that size.

A command is asked with too small a budget until it names one that it accepts: in a cgroup of as
much, which counts page cache and the code of libraries too, it has to come to its end. Data are
small, but such that one kind of array is large next to what the program itself takes.
"""

import re

import numpy as np
import pytest
from bench.conftest import load
from programs import COMMAND, GUARD_S

from blocklinear.cli.main import main
from blocklinear.model.linear import LinearModel

ROWS = 1_200_000  # of an entry or two
FEATURES = 3_000_000
MOST_TIMES = 8
"""How often a command may refuse: text is read once, and its features are not known before."""

CASES = {
    "cv": "cv {rows} -c 1 -v 2 --max-outer 1 --gap 0.5",
    "cv of stratified folds": "cv {rows} -c 1 -v 5 --stratify --max-outer 1 --gap 0.5",
    "cv of regression": "cv {rows} -s 12 -c 1,2 -v 3 --max-outer 1 --refit {new}",
    "train": "train {rows} {new} --run {run} --max-outer 2",
    "train by Newton's method": "train {wide} {new} --run {run} -s 0 --max-outer 2",
    "train with L1 regularisation": "train {wide} {new} --run {run} -s 5 --max-outer 2",
    "train one class": "train {rows} {new} --run {run} -s 21 --max-outer 2",
    "train and average": "train {wide} {new} --run {run} --average",
    "train a grid": "train {wide} {new} --run {run} -c 0.1,1,10 --max-outer 1",
    "predict": "predict {text} {model} {new}",
    "predict by LIBLINEAR's text": "predict {text} {model_text} {new}",
    "split": "split {text} {new} --weights {weights}",
    "split wide rows": "split {wide_text} {new}",
    "transpose": "transpose {wide} --force",
}


@pytest.fixture(scope="module")
def data(disk):
    """Text, stores and models, by the names that they have in commands."""
    rng = np.random.default_rng(0)
    made = {name: disk / name for name in
            ("rows", "wide", "text", "wide_text", "weights", "model", "model_text")}  # fmt: skip
    features, labels = rng.integers(1, 1000, ROWS), rng.choice([-1, 1], ROWS)
    lines = (f"{y} {j}:1\n" for y, j in zip(labels.tolist(), features.tolist(), strict=True))
    made["text"].write_text("".join(lines))
    made["weights"].write_text("0.5\n" * ROWS)
    wide = np.sort(rng.integers(1, FEATURES, (20_000, 20)))
    made["wide_text"].write_text("".join(
        f"{2 * (k % 2) - 1} " + " ".join(f"{j}:1" for j in np.unique(row).tolist()) + "\n"
        for k, row in enumerate(wide)
    ))  # fmt: skip
    for store, text in (("rows", "text"), ("wide", "wide_text")):
        options = ["--blocks", "40", "--memory", "1G", "-q"]
        assert main(["split", str(made[text]), str(made[store]), *options]) == 0
    weights = rng.standard_normal((2 * FEATURES, 3))
    weights[rng.random(len(weights)) < 0.2] = 0.0  # so that the others are listed
    model = LinearModel(weights, np.zeros(3), -1.0, (0.0, 1.0, 2.0), "L2R_LR", 1, {})
    model.save(made["model"])
    few = LinearModel(weights[: FEATURES // 10], np.zeros(3), -1.0, model.labels, "L2R_LR", 1, {})
    few.save(made["model_text"], format="liblinear")
    return made


@pytest.mark.parametrize("case", CASES)
def test_the_least_budget_suffices(case, data, disk, capsys):
    """Budgets are asked for in this process, which compiles what is not compiled yet."""
    limits = load("limits")

    def arguments(budget, number):
        name = re.sub(r"\W", "-", f"{case} {number}")
        names = data | {"new": disk / name, "run": name}
        command = [word.format(**names) for word in CASES[case].split()]
        return [*command, "--memory", budget, "-q"]

    budget, number = "1M", 0
    while main(arguments(budget, number)) == 7:
        budget = re.findall(r"--memory (\d+M)", capsys.readouterr().err)[-1]
        number += 1
        assert number < MOST_TIMES
    assert budget != "1M"
    try:
        with limits.limited(memory=budget, cold=False) as run:
            command = [*COMMAND, *arguments(budget, "-limited")]
            found = run(command, capture=True, timeout=GUARD_S)
    except limits.LimitsUnavailable as reason:
        pytest.skip(str(reason))
    assert (found.returncode, found.oom_kills) == (0, 0), found.stderr
