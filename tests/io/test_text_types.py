"""Columns whose names polars would take for patterns."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tulle.errors import DataError
from tulle.io._text_types import (
    ALL,
    TEMPORAL,
    WITH_COMMA,
    ColumnGuess,
    TextType,
    named,
    restored_type,
    saved_type,
)

NAMES = ["^age$", "*", "^.*$", "^(?:$"]  # the last one is not even a regular expression
TEXTS: dict[str, tuple[list[Any], list[Any]]] = {
    "integer": (["1", "-20"], [1, -20]),
    "integer, cleaned": ([" 1", "NA"], [1, None]),
    "decimal": (["1.5", "2"], [1.5, 2.0]),
    "boolean": (["true", "?", "False"], [True, None, False]),
    "text": (["a", "01"], ["a", "01"]),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_stands_for_itself(name: str) -> None:
    frame = pl.DataFrame({"age": [1], name: [2], "other": [3]})
    assert frame.select(named(name)).to_dict(as_series=False) == {name: [2]}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", TEXTS)
def test_texts_are_read_under_any_name(name: str, kind: str) -> None:
    texts, expected = TEXTS[kind]
    frame = pl.DataFrame({"age": ["wrong"] * len(texts), name: texts})
    guess = ColumnGuess(ALL)
    guess.update(frame[name])
    assert (guess.result.name if guess.result else "text") == kind.partition(",")[0]
    assert frame.select(guess.expression(name)).to_dict(as_series=False) == {name: expected}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", TEXTS)
def test_cells_are_read_under_any_name(name: str, kind: str) -> None:
    texts, expected = TEXTS[kind]
    guess = ColumnGuess(ALL)
    guess.update(pl.Series(name, texts))
    if guess.result is not None:
        read, wrong = guess.result.read_cells(pl.Series(name, texts))
        assert (read.name, read.to_list(), wrong) == (name, expected, None)


def type_named(name: str) -> TextType:
    return next(found for found in (*ALL, WITH_COMMA) if found.name == name)


@pytest.mark.parametrize(
    ("kind", "fine", "wrong"),
    [
        ("integer", ["1", " -7 ", "NA", None], ["007", "+5", "1.5", "x", "-0", "9" * 20]),
        ("decimal", ["1", "-.5", "1e3", "inf", "?"], ["007.5", "1,5", "1e400", "9" * 17]),
        ("decimal comma", ["1", "-0,5"], ["1.5", "01,5", "1.234,5"]),
        ("boolean", ["true", "FALSE", "-"], ["yes", "1"]),
        ("date", ["2024-02-29", None], ["2023-02-29", "2024-2-9", "0000-01-01"]),
        ("month/day", ["12/31/2023", "1/2/2024"], ["31/12/2023", "12/31/23"]),
    ],
)
def test_each_cell_that_does_not_fit_is_found(
    kind: str, fine: list[str | None], wrong: list[str]
) -> None:
    texts = pl.Series("v", [*fine, *wrong, *fine], dtype=pl.String)
    typed, mask = type_named(kind).read_cells(texts)
    assert mask is not None
    assert mask.arg_true().to_list() == [*range(len(fine), len(fine) + len(wrong))]
    alone, none = type_named(kind).read_cells(pl.Series("v", fine, dtype=pl.String))
    assert none is None
    assert typed.head(len(fine)).equals(alone, null_equal=True)


def test_types_are_restored_or_refused() -> None:
    for found in (None, *ALL, WITH_COMMA):
        assert restored_type(*saved_type(found)) is found
    for unknown in (("number", -1), ("date", 999), ("date", 0), ("integer", len(TEMPORAL))):
        with pytest.raises(DataError):
            restored_type(*unknown)
