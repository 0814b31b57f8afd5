"""The language of rules: what is read, and how what cannot be read is answered."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulle._relations.language import columns_of, parse_rule, quote
from tulle._relations.values import Values, broken, unit_of
from tulle.errors import ParameterError

NAMES = ["a", "b", "c", "sex", "education", "education-num", "height in cm", "missing", "days"]
TABLE = pl.DataFrame(
    {
        "a": [1, 2, 3, None],
        "b": [2, 2, 1, 5],
        "c": [0.5, 1.0, 3.0, 2.0],
        "sex": ["m", "f", None, "f"],
        "education": ["x", "x", "y", "y"],
        "education-num": [1, 2, 3, 3],
        "height in cm": [10, 20, 30, 40],
        "missing": [True, False, True, None],
        "days": pl.Series(["2020-01-01", "2020-03-01", None, "2021-01-01"]).str.to_date(),
    }
)


def rows(text: str, table: pl.DataFrame = TABLE) -> list[int]:
    values = Values(table, {name: unit_of(table[name]) for name in table.columns})
    return np.flatnonzero(broken(parse_rule(text, table.columns), values)).tolist()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("a <= b", [2]),
        ("b >= a", [2]),
        ("a < b", [1, 2]),
        ("a != b", [1]),
        ("1 <= a < 3", [2]),
        ("a <= 2 and b > 1", [2]),
        ("a <= 2 or b = 1", []),
        ("b = a + c * 2", [1, 2]),
        ("b = 2 * a ** 1 - (a - 1) * 2", [2]),
        ("c = abs(-b) / 2 - a + a", [0, 2]),
        ("max(a, b) <= 2", [2]),
        ("sex = 'm'", [1, 3]),
        ('sex != "m"', [0]),
        ("sex in ('m', 'd')", [1, 3]),
        ("sex not in ('m')", [0]),
        ("sex is missing", [0, 1, 3]),
        ("sex is not missing", [2]),
        ("a is null if sex = 'f'", [1]),
        ("sex = 'f' only if a is missing", [1]),
        ("if b = 2 then a = 2", [0]),
        ("never sex = 'f' and b > 2", [3]),
        ("not (sex = 'f' and b > 2)", [3]),
        ("education -> education-num", [1]),
        ("`education`, `a` -> b", []),
        ("height in cm > 10", [0]),
        ("`missing`", [1]),
        ("`missing` = true", [1]),
        ("days >= '2020-02-01'", [0]),
        ("year(days) = 2020", [3]),
        ("days('2019-12-31', days) = 1", [1, 3]),
        ("years('2000-03-01', days) = 20", [0]),
        ("a ≤ b", [2]),
        ("c = exp(log(b)) - 2 * log10(10)", [0, 1, 2, 3]),
        ("b = sqrt(b ^ 2)", []),
        ("`missing` = sex == 'm'", []),
        ("`missing` = (b = 2)", [1, 2]),
        ("one_of(`missing`, `education-num`)", [0, 1]),
        ("at_most_one_of(a, `education-num`)", [0]),
    ],
)
def test_what_rules_say(text: str, wrong: list[int]) -> None:
    assert rows(text) == wrong


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("a <=", 5),
        ("a + b", 1),
        ("a < (b", 7),
        ("a ~ b", 3),
        ("-> a", 1),
        ("a -> ", 6),
        ("a = 'x", 5),
        ("years(a) = 3", 1),
        ("(a < b) + 1 = 3", 11),
        ("a is b", 6),
        ("a < 3 b", 7),
        ("1 is missing", 3),
        ("a and b + 1", 1),
        ("a = b == c == 3", 16),
        ("one_of(a + b)", 10),
        ("log(a, b) = 3", 1),
        ("", 1),
    ],
)
def test_what_cannot_be_read_is_named_with_its_position(text: str, position: int) -> None:
    with pytest.raises(ParameterError, match=rf"position {position}:") as caught:
        parse_rule(text, NAMES)
    assert f"'{text}'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_columns_get_a_hint() -> None:
    with pytest.raises(ParameterError, match="did you mean 'education'"):
        parse_rule("educaton = 3", NAMES)
    with pytest.raises(ParameterError, match="text stands in quotes"):
        parse_rule("sex = m", NAMES)


def test_a_rule_is_text() -> None:
    with pytest.raises(ParameterError, match="Got a int"):
        parse_rule(3, NAMES)  # type: ignore[arg-type]


def test_text_that_is_no_date_cannot_be_compared_with_one() -> None:
    with pytest.raises(ParameterError, match="neither"):
        rows("days > 'soon'")


@given(st.lists(st.text(min_size=1).filter(lambda t: "`" not in t), min_size=2, unique=True))
def test_quoted_names_are_read_whatever_they_are(names: list[str]) -> None:
    first, last = names[:2]
    rule = parse_rule(f"{quote(first)} <= {quote(last)}", names)
    assert list(columns_of(rule.parts[0])) == [first, last]


def test_equality_allows_for_the_rounding_of_its_column() -> None:
    table = pl.DataFrame({"whole": [3, 4, 5], "exact": [3.4, 3.5, 3.9]})
    assert rows("whole = exact", table) == [2]
    table = pl.DataFrame({"sum": [0.30, 0.32], "x": [0.1, 0.1], "y": [0.2, 0.21]})
    assert rows("sum = x + y", table) == [1]
