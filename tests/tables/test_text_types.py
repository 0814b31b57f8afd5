"""Columns whose names polars would take for patterns."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tulle.io._text_types import ALL, ColumnGuess, named
from tulle.stream._records import type_of_texts

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
def test_fields_of_a_stream_are_read_under_any_name(name: str, kind: str) -> None:
    texts, expected = TEXTS[kind]
    reasons: dict[int, str] = {}
    read = type_of_texts(name, texts, ",").read(pl.Series(name, texts), reasons)
    assert (read.name, read.to_list(), reasons) == (name, expected, {})
