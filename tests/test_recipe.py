"""Names of the features of tables."""

from hypothesis import given
from hypothesis import strategies as st

from blocklinear.recipe import Column, Recipe, Target

names = st.text('a="', min_size=1, max_size=5) | st.sampled_from(["hash 0", "a=missing"])
kinds = st.sampled_from(["number", "text"])


def names_of(columns, values=(), hash_bits=0):
    made = tuple(Column(name, kind) for name, kind in columns.items())
    places = [j for j, column in enumerate(made) if column.kind == "text"]
    dictionary = () if hash_bits else tuple((j, value) for j in places for value in values)
    recipe = Recipe(made, Target("y", "number"), None, hash_bits, dictionary)
    return [recipe.feature_name(j) for j in range(recipe.n_features)]


@given(st.dictionaries(names, kinds, min_size=1), st.sets(names), st.sampled_from([0, 1]))
def test_no_two_features_have_the_same_name(columns, values, hash_bits):
    found = names_of(columns, values, hash_bits)
    assert len(set(found)) == len(found)


def test_columns_are_quoted_where_features_of_others_may_have_their_names():
    columns = {"a": "text", "a=b": "number", "n": "number", "n=missing": "text", "u=v": "number"}
    assert names_of(columns, "b") == [
        '"a=b"', "n", "u=v", '"a=b"=missing', "n=missing", "u=v=missing",
        "a=b", '"n=missing"=b',
    ]  # fmt: skip


def test_names_with_ends_of_lines_stay_in_their_line():
    columns = (Column("a\nb", "number"), Column("c\x1b[31m", "text"))
    lines = Recipe(columns, Target("y\r\n", "number"), "w\u2028").summary().splitlines()
    assert lines == [
        r"target: y\r\n", r"weight: w\u2028",
        r"1 column of kind number: a\nb", r"1 column of kind text: c\x1b[31m",
    ]  # fmt: skip
