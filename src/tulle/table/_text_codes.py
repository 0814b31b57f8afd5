"""Free text as codes: a word of each text that many people use, and nothing else of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tulle.table._rare import Crowd
from tulle.table._series import filled

_WORD = r"\p{L}{4,}"  # shorter words hardly ever say what a text is about
_MOST = 100  # words that may become codes


def code_words(texts: pl.Series, crowd: Crowd | None) -> list[str]:
    """Return the words that stand for texts, those that tell most of them apart first.

    After every text has taken its code, enough people of the crowd share each.
    """
    table = _words(texts)
    share = pl.col("n") / max(len(texts), 1)  # a word of all texts says nothing
    ranked = table["word"].value_counts(name="n").filter(share < 1)
    words = ranked.sort(share * share.log(), "word").head(_MOST)["word"].to_list()
    while crowd is not None and words:
        codes = filled(_first(table, words, len(texts)), -1)
        held = crowd.held(np.asarray(codes, dtype=np.int64), len(words))
        if held.min() >= crowd.enough():
            break
        del words[int(held.argmin())]  # its texts may have another code
    return words


def as_codes(texts: pl.Series, words: Sequence[str]) -> pl.Series:
    """Return for each text the first of some words that it has; null if it has none."""
    places = _first(_words(texts), words, len(texts))
    return pl.Series(texts.name, words, dtype=pl.String).gather(places)


def _words(texts: pl.Series) -> pl.DataFrame:
    """Return the different words of each text, in small letters."""
    table = pl.DataFrame({"row": np.arange(len(texts)), "word": texts.cast(pl.String)})
    found = pl.col("word").str.to_lowercase().str.extract_all(_WORD)
    return table.with_columns(found).explode("word").drop_nulls().unique()


def _first(table: pl.DataFrame, words: Sequence[str], rows: int) -> pl.Series:
    """Return the place of the first of some words in each row, null where it has none."""
    known = pl.DataFrame({"word": words, "place": np.arange(len(words))})
    known = known.cast({"word": pl.String, "place": pl.Int64})
    first = table.join(known, "word").group_by("row").agg(pl.col("place").min())
    whole = pl.DataFrame({"row": np.arange(rows)})
    return whole.join(first, "row", "left", maintain_order="left")["place"]
