"""How stores, models and results look in a notebook."""

import re
from html.parser import HTMLParser

import pytest

import blocklinear
from blocklinear.markup import facts_html, table_html, text_html


class Tags(HTMLParser):
    """Checks that elements nest, and that nothing is fetched."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        assert {name for name, _ in attrs} <= {"class"}
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def checked(html):
    tags = Tags()
    tags.feed(html)
    tags.close()
    assert not tags.open
    assert tags.seen <= {
        "div", "style", "table", "caption", "thead", "tbody", "tr", "th", "td", "br", "pre",
    }  # fmt: skip
    assert not re.search("url|@|http", html.partition("</style>")[0])
    return re.sub(r"<[^>]+>", " ", html)


def test_everything_has_a_page(store, rows, tmp_path):
    model = blocklinear.train(store, C=0.5)
    report = blocklinear.predict(rows, model, tmp_path / "labels", report=True)
    for made, words in (
        (store, ["60 rows", "3 blocks", "batch b1"]),
        (model, ["L2R_L1LOSS_SVC_DUAL", "certified gap", "0.5"]),
        (report, ["Accuracy = ", "rows"]),
        (store.verify(), ["3 blocks, 60 rows", "all intact"]),
        (blocklinear.check(rows), ["60 rows", "no problem"]),
        (blocklinear.cross_validate(store, costs=[0.1, 1.0], folds=3), ["3-fold", "accuracy"]),
    ):
        text = checked(made._repr_html_())
        for word in words:
            assert word in text


def test_repr_is_a_line(store):
    assert repr(store) == f"BlockStore({str(store.folder)!r}: 60 rows, 4 features, 3 blocks)"
    model = blocklinear.train(store, C=0.5)
    assert repr(model) == "LinearModel(L2R_L1LOSS_SVC_DUAL, classes 1 -1, 4 features, C 0.5)"
    assert "\n" not in repr(blocklinear.train(store, solver=13))


def test_names_of_files_are_escaped(rows, tmp_path):
    store = blocklinear.split(rows, tmp_path / "<b onclick=x>&", blocks=2)
    text = store._repr_html_()
    assert "&lt;b onclick=x&gt;&amp;" in text
    checked(text)


def test_all_text_is_escaped():
    wrong = '<script>alert("&")</script>'
    for html in (
        facts_html(wrong, {wrong: wrong}),
        table_html(wrong, [wrong], [[wrong]], 0),
        text_html(wrong),
    ):
        assert "<script" not in html
        assert "&lt;script&gt;" in html
        checked(html)


def test_a_cross_validation_is_a_table(store):
    found = blocklinear.cross_validate(store, costs=[0.1, 1.0], folds=3)
    columns = found.to_dict()
    assert columns["C"] == [0.1, 1.0]
    names = ["accuracy", "auc", "f1"]
    assert list(columns) == ["C", *(n + end for n in names for end in ("", "_std")), "gap"]
    assert {len(column) for column in columns.values()} == {2}
    best = max(columns["accuracy"])
    assert found.best_cost == columns["C"][columns["accuracy"].index(best)]
    assert best == found.report.best.mean("accuracy")
    each = found.to_dict(folds=True)
    assert each["fold"] == [0, 1, 2] * 2
    assert sum(each["rows"]) == 120
    assert repr(found) == found.report.table()
    folds = found.report.best.folds
    share = sum(fold["accuracy"] * fold["rows"] for fold in folds) / 60
    assert (found.labels == found.predicted).mean() == pytest.approx(share)


def test_pandas_takes_the_table(store):
    pandas = pytest.importorskip("pandas")
    found = blocklinear.cross_validate(store, costs=[0.1, 1.0], folds=3)
    assert isinstance(found.to_pandas(), pandas.DataFrame)
    assert list(found.to_pandas(folds=True).columns[:3]) == ["C", "fold", "rows"]
