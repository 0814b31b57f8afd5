"""Which alias stands for which value: what a site needs to read results.

A keyed alias cannot be turned around, only tried: a site knows the values of its own table, hashes
them and looks results up. Values that only other sites hold stay aliases, unless those sites share
their vocabulary: it is written sealed under a key of the agreement, so that sites can read it and
the miner cannot.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import NoReturn

import polars as pl

from tulle.errors import KeyMaterialError
from tulle.keys import SecretKey
from tulle.sites.aliases import check_no_collision, keyed_aliases, table_aliases
from tulle.sites.columns import PARTS, Aliased, Coded, Joint, ValueType
from tulle.sites.sealed import read_sealed, write_sealed

OTHER = "other"
_CONTENT = "site vocabulary"
_EMPTY = {"alias": pl.String, "text": pl.String}


class Vocabulary:
    """Aliases and the texts they stand for, one table for each aliased column."""

    def __init__(self, columns: Iterable[Coded], key: SecretKey) -> None:
        self._key = key
        self._columns = {c.name: c for c in columns if isinstance(c, Aliased | Joint)}
        self._known = {name: pl.DataFrame(schema=_EMPTY) for name in self._columns}
        self._texts: dict[str, str] | None = None
        self._shared: set[str] | None = None
        for column in self._columns.values():
            if isinstance(column, Aliased):
                self._learn_agreed(column)

    def aliases(self, name: str, texts: list[str], part: int = 0) -> list[str]:
        """The keyed aliases of some distinct texts, remembered for the way back."""
        found = keyed_aliases(name, texts, self._key, part)
        self._add(name, found, texts)
        return found

    def learn(self, name: str, texts: list[str]) -> None:
        """Remembers values without encoding them; all parts of a split value."""
        column = self._columns[name]
        parts = PARTS if isinstance(column, Aliased) and column.split else 1
        for part in range(parts):
            self.aliases(name, texts, part)

    def table(self, name: str) -> pl.DataFrame:
        """Alias and text of all values known of a column."""
        return self._known[name]

    def everything(self) -> pl.DataFrame:
        """Alias and text of all values known."""
        return pl.concat([pl.DataFrame(schema=_EMPTY), *self._known.values()])

    def texts(self) -> dict[str, str]:
        """Every alias known, of all columns."""
        if self._texts is None:  # results come one by one: it is made once for all of them
            known = self.everything()
            self._texts = dict(zip(known["alias"].to_list(), known["text"].to_list()))
        return self._texts

    def shared_texts(self) -> set[str]:
        """Texts that are values of several columns."""
        if self._shared is None:
            once = [known.select(pl.col("text").unique()) for known in self._known.values()]
            texts = pl.concat([pl.DataFrame(schema={"text": pl.String}), *once])
            self._shared = set(texts.filter(pl.col("text").is_duplicated())["text"])
        return self._shared

    def count(self) -> int:
        """How many aliases are known."""
        return sum(known.height for known in self._known.values())

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Writes the values, sealed for the sites of this agreement."""
        words = {name: known["text"].unique().sort().to_list() for name, known in self._keyed()}
        plain = json.dumps(words).encode()
        write_sealed(path, plain, _CONTENT, self._lock(), force=force)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Adds the values of a vocabulary that was saved under the same agreement."""
        plain = read_sealed(path, _CONTENT, self._lock(), "agreement")
        words: Mapping[str, list[str]] = json.loads(plain)
        for name, texts in words.items():
            if name in self._columns and texts:
                self.learn(name, texts)

    def _keyed(self) -> Iterable[tuple[str, pl.DataFrame]]:
        for name, column in self._columns.items():
            if isinstance(column, Joint) or column.keyed:
                yield name, self._known[name]

    def _lock(self) -> SecretKey:
        return SecretKey(self._key.derive("sites/vocabulary"))

    def _learn_agreed(self, column: Aliased) -> None:
        """What needs no table to be known: truth values and agreed lists."""
        if column.categories is not None:
            listed = list(dict.fromkeys([*column.categories, *([OTHER] if column.other else [])]))
            self._add(column.name, table_aliases(column.name, listed, self._key), listed)
        elif column.type is ValueType.BOOLEAN:
            self.learn(column.name, ["true", "false"])

    def _add(self, name: str, aliases: list[str], texts: list[str]) -> None:
        new = pl.DataFrame({"alias": aliases, "text": texts}, schema=_EMPTY)
        known = pl.concat([self._known[name], new]).unique()
        check_no_collision(name, known["alias"])
        self._known[name] = known
        self._texts = self._shared = None

    def __repr__(self) -> str:
        return f"Vocabulary({self.count()} aliases, hidden)"

    def __reduce__(self) -> NoReturn:
        raise KeyMaterialError("a vocabulary is never pickled: save it with save_vocabulary(path)")
