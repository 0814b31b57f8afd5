"""Records of a stream: the text of each to typed values; what does not match is refused.

The initial records settle encoding, separator, columns and types, by the rules of whole files;
every later record must match them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from tulle.errors import DataError
from tulle.io._csv import CsvReader, Fields
from tulle.io._formats import Format, readable_as
from tulle.io._json_lines import JsonGuess, JsonReader, parse_json
from tulle.io._text import WRONG_QUOTES, Encoding, Reasons, TypedRecords
from tulle.io._text_types import TextType, declared_type, restored_type, saved_type
from tulle.table._series import refuse_patterns
from tulle.table.schema import Column, Kind

Texts = Sequence[bytes | None]
_ZERO = "a zero byte in the text"
_PACKED_OR_WIDE = (b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff")


class RecordReader:
    """Reads texts of CSV or NDJSON records once :meth:`begin` has seen the initial ones."""

    def __init__(self, kind: str, header: bytes | None, source: str = "the source") -> None:
        self.kind = kind
        self.source = source
        self.header = header or b""
        self.encoding = Encoding()
        self.types: dict[str, TextType | None] = {}
        self.required: set[str] = set()  # keys that all initial records have
        self._csv: CsvReader | None = None
        self._json: JsonReader | None = None
        if kind == "csv" and header is None:
            raise DataError(
                f"{source}: the header line is missing or its quotes do not match: CSV must "
                "begin with the column names"
            )
        if self.header.startswith(_PACKED_OR_WIDE) or b"\0" in self.header:
            raise DataError(
                f"{source}: the header is not UTF-8 text: decompress the file, or save it as UTF-8"
            )

    def to_json(self) -> dict[str, Any]:
        types = {name: saved_type(found) for name, found in self.types.items()}
        separator = self._csv.separator if self._csv else None
        known = {"encoding": self.encoding.name, "separator": separator}
        return {"kind": self.kind, "types": types, "required": sorted(self.required), **known}

    def restore(self, entries: dict[str, Any]) -> None:
        types = {name: restored_type(*saved) for name, saved in entries["types"].items()}
        self.encoding = Encoding(entries["encoding"])
        self.required = set(entries["required"])
        if self.kind == "csv":
            self._open_csv(None, entries["separator"])
        names = list(types) if self._csv is None else self._csv.names
        if self.kind != entries["kind"] or names != list(types):
            raise DataError(
                "the format or the columns of the source differ from those of the state"
            )
        self._settle(types)

    # -- the initial records -------------------------------------------------------------------

    def well_formed(self, texts: Texts) -> tuple[int, Reasons]:
        """Count how many of the initial texts are records, and why the others are not.

        The encoding is not known yet, and does not matter to where fields begin and end.
        """
        plain = [None if text is None else text.decode("latin-1").encode() for text in texts]
        if self.kind == "csv":
            if self._csv is None and (first := _first(plain)) is not None:
                self._csv = CsvReader(self.source, self.header.decode("latin-1").encode(), first)
            if self._csv is None:
                return 0, {}  # blank lines only
            fields, places, refused = self._fields(plain)
            reasons = {places[at]: reason for at, reason in fields.reasons.items()}
            return len(fields.kept), refused | reasons
        parsed = [(at, *parse_json(text)) for at, text in enumerate(plain) if text is not None]
        refused = {at: reason for at, _, reason in parsed if reason}
        return sum(row is not None for _, row, _ in parsed), refused

    def refuse_no_header(self) -> None:
        """Raise an error that says what is wrong with a header that no record follows."""
        if self.kind == "csv":
            CsvReader(self.source, self.header.decode("latin-1").encode(), None)

    def begin(
        self, texts: Texts, faults: Mapping[int, str], columns: Sequence[Column]
    ) -> TypedRecords:
        """Settle what later texts must match, and return the initial records.

        Types are what a policy says, or else what all initial values are.
        """
        self.encoding.decide(b"\n".join([self.header, *filter(None, texts)]))
        self.encoding.name = self.encoding.name or "utf-8"
        texts, refused = self._recoded(texts)
        declared = {column.name: _read_as(column) for column in columns}
        with readable_as(self.source, Format.CSV if self.kind == "csv" else Format.NDJSON):
            if self.kind == "csv":
                self._begin_csv(texts, declared)
            else:
                self._begin_json(texts, declared)
            found = self._read(texts, dict(faults) | refused)
        if self._csv is not None:
            self._csv.refuse_wrong_header(found.frame)
        self.required = self.types.keys() - found.lacking.keys()
        return found._replace(lacking={})

    def _begin_csv(self, texts: Texts, declared: Mapping[str, Kind | None]) -> None:
        reader = self._open_csv(_first(texts))
        reader.judge(self._fields(texts)[0])
        guessed = {name: guess.result for name, guess in reader.guesses.items()}
        self._settle({n: declared_type(declared.get(n), found) for n, found in guessed.items()})

    def _begin_json(self, texts: Texts, declared: Mapping[str, Kind | None]) -> None:
        guess = JsonGuess(self.source)
        lines = [text for text in texts if text and parse_json(text)[0] is not None]
        if not lines:
            raise DataError(f"{self.source}: the initial lines contain no record")
        guess.update(b"\n".join(lines))
        types = {}
        for name, found in guess.types.items():
            kind = declared.get(name)
            numbers = found is not None and guess.raw[name] == found.dtype
            kept = numbers and kind in (Kind.CATEGORY, Kind.TEXT)  # they are not texts in JSON
            types[name] = found if kept else declared_type(kind, found)
        self._settle(types)

    def _open_csv(self, record: bytes | None, mark: str = "") -> CsvReader:
        header = self.encoding.recoded(self.header)
        if header is None:
            raise DataError(f"{self.source}: the header and the records have different encodings")
        self._csv = CsvReader(self.source, header, record, mark)
        return self._csv

    def _settle(self, types: dict[str, TextType | None]) -> None:
        refuse_patterns(types)
        self.types = types
        if self.kind != "csv":
            self._json = JsonReader(types)

    # -- all records ---------------------------------------------------------------------------

    def records(self, texts: Texts, faults: Mapping[int, str] | None = None) -> TypedRecords:
        """Return the records of texts; blank ones are neither records nor refused.

        ``faults`` are the reasons for texts that are missing.
        """
        texts, refused = self._recoded(texts)
        return self._read(texts, dict(faults or {}) | refused)

    def _read(self, texts: Texts, faults: Reasons) -> TypedRecords:
        if self._csv is not None:
            fields, places, refused = self._fields(texts)
            found = self._csv.read(fields, self.types)
        else:
            assert self._json is not None
            places, chosen = _present(texts)
            found, refused = self._json.read(chosen), {}
        if self.required:
            lost = {n: count for n, count in found.lacking.items() if n in self.required}
            found = found._replace(lacking=lost)
        if len(places) < len(texts):
            mapped = np.array(places, dtype=np.int64)
            refused = refused | {places[at]: reason for at, reason in found.refused.items()}
            return found._replace(places=mapped[found.places], refused=faults | refused)
        return found._replace(refused=faults | found.refused)

    def _recoded(self, texts: Texts) -> tuple[Texts, Reasons]:
        """Convert the texts to UTF-8; return them, and why some cannot be converted."""
        whole = b"\n".join([text for text in texts if text])
        if whole.isascii() and b"\0" not in whole:
            return texts, {}
        if self.encoding.name == "utf-8" and self.encoding.recoded(whole) is not None:
            return texts, {}
        recoded = [None if text is None else self.encoding.recoded(text) for text in texts]
        wrong = [at for at, text in enumerate(recoded) if text is None and texts[at] is not None]
        reason = "not UTF-8" if self.encoding.name == "utf-8" else "not Windows-1252"
        return recoded, {at: _ZERO if b"\0" in (texts[at] or b"") else reason for at in wrong}

    def _fields(self, texts: Texts) -> tuple[Fields, Sequence[int], Reasons]:
        """Return the fields of texts, the places of these texts, and why others are not records."""
        assert self._csv is not None
        refused: Reasons = {}
        places, chosen = _present(texts)
        block = b"\n".join([*chosen, b""])
        if b'"' in block:
            odd = {at for at, text in zip(places, chosen) if text.count(b'"') % 2}
            refused = dict.fromkeys(odd, WRONG_QUOTES)
            if odd:
                places, chosen = _present([None if at in odd else t for at, t in enumerate(texts)])
                block = b"\n".join([*chosen, b""])
        if b"\r\n" in block:  # a return that belongs to a text must not be taken for a line end
            block = b"\r\n".join([*chosen, b""])
        return self._csv.fields(block), places, refused


def _read_as(column: Column) -> Kind | None:
    """Return the kind that cells are read as; None if they are what they look like.

    Numbers with words among them, or in a form of their own, stay text: the code of their column
    reads them.
    """
    if column.kind is Kind.ORDERED:
        return None
    words = any(isinstance(value, str) for value in column.missing) or column.codes
    return Kind.TEXT if words or column.format else column.kind


def _first(texts: Texts) -> bytes | None:
    return next((text for text in texts if text and text.strip(b"\r")), None)


def _present(texts: Texts) -> tuple[Sequence[int], Sequence[bytes]]:
    if None not in texts:
        return range(len(texts)), cast(Sequence[bytes], texts)
    places = [at for at, text in enumerate(texts) if text is not None]
    return places, [text for text in texts if text is not None]
