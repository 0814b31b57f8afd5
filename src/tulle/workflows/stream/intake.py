"""Lines in, records condensed: typing, refusing, and where the records are that wait."""

from __future__ import annotations

from typing import Any

import polars as pl

from tulle.condense.stream import StreamCondenser
from tulle.condense.stream.saving import resupply
from tulle.errors import DataError, PrivacyError
from tulle.workflows.stream.lines import Line
from tulle.workflows.stream.records import RecordReader, Row
from tulle.workflows.stream.rejects import Rejects
from tulle.workflows.stream.settings import Settings
from tulle.workflows.stream.sources import Source


class Intake:
    """Feeds a condenser from lines; begins with the initial ones, which settle the types."""

    def __init__(self, reader: RecordReader, rejects: Rejects, settings: Settings) -> None:
        self.reader = reader
        self.rejects = rejects
        self.settings = settings
        self.condenser: StreamCondenser | None = None
        self.initial: list[tuple[Row, Line]] = []
        self.places: dict[int, Any] = {}  # of the waiting records, by their number
        self.read = 0

    @property
    def seen(self) -> int:
        """Records that the condenser has taken."""
        return 0 if self.condenser is None else int(self.condenser.n_seen_)

    def resume(
        self,
        condenser: StreamCondenser,
        owed: list[dict[str, Any]],
        places: dict[int, Any],
        source: Source,
    ) -> None:
        """Goes on with a condenser; records that wait are read from the source again."""
        lines = source.again([places[waiter["number"]] for waiter in owed])
        if owed:
            rows = [row for row, _ in map(self.reader.parse, lines) if row is not None]
            records = self.reader.frame(rows)[0]
            if records.height != len(owed):
                raise DataError("a record that waits reads differently now: the source changed")
            resupply(condenser, owed, self._features(records))
        self.condenser = condenser
        self.places = places

    def take(self, lines: list[Line]) -> None:
        """Condenses lines, or keeps them until the initial records are complete."""
        rows: list[tuple[Row, Line]] = []
        for line in lines:
            if line.text == b"":
                continue
            self.read += 1
            row, reason = self.reader.parse(line)
            if row is None:
                self.rejects.add(line, reason)
            else:
                rows.append((row, line))
        if self.condenser is not None:
            self._insert(*self._allowed(*self._typed(rows)))
            return
        self.initial += rows
        if len(self.initial) >= self.settings.wanted["init"]:
            self.begin()

    def begin(self) -> None:
        """Makes the groups of the initial records."""
        if not self.initial:
            raise DataError("the source holds no record")
        self.reader.learn([row for row, _ in self.initial], self.settings.declared())
        frame, lines = self._typed(self.initial)
        self.settings.plan(frame)
        frame, lines = self._allowed(frame, lines)
        wanted, classes = self.settings.wanted, self.settings.class_column
        condenser = StreamCondenser(
            wanted["k"],
            init_size=max(2, frame.height),
            split=wanted["split"],
            grouping=wanted["grouping"],
            synthesis=wanted["synthesis"],
            classwise=classes is not None,
            columns=[column for column in self.settings.columns if column.name != classes],
            random_state=wanted["seed"],
        )
        condenser.partial_fit(self._features(frame), self._classes(frame))
        if not len(condenser.counts_):
            raise PrivacyError(
                f"{frame.height} records are too few for one group of their level: nothing was "
                "written. Wait for more"
            )
        self.condenser = condenser
        self.initial = []
        self._note_waiting(0, lines)

    def _typed(self, rows: list[tuple[Row, Line]]) -> tuple[pl.DataFrame, list[Line]]:
        """Typed records and their lines; what does not fit is refused."""
        frame, reasons = self.reader.frame([row for row, _ in rows])
        kept = []
        for (_, line), reason in zip(rows, reasons):
            if reason:
                self.rejects.add(line, reason)
            else:
                kept.append(line)
        return frame, kept

    def _allowed(self, frame: pl.DataFrame, lines: list[Line]) -> tuple[pl.DataFrame, list[Line]]:
        """Refuses records without a level of 1 or more, or without a class."""
        level, classes = self.settings.level_column, self.settings.class_column
        fine = pl.repeat(True, frame.height, eager=True)
        if level is not None:
            if not frame[level].dtype.is_integer():
                raise DataError(f"the levels in '{level}' must be whole numbers")
            fine &= (frame[level] >= 1).fill_null(False)
        if classes is not None:
            fine &= frame[classes].is_not_null()
        if fine.all():
            return frame, lines
        for place in (~fine).arg_true():
            self.rejects.add(lines[place], "its level or its class is missing or not allowed")
        return frame.filter(fine), [line for line, good in zip(lines, fine) if good]

    def _insert(self, frame: pl.DataFrame, lines: list[Line]) -> None:
        """Condenses records; if one is refused (a category never seen, say), halves find it."""
        assert self.condenser is not None
        if not frame.height:
            return
        before = self.seen
        try:
            self.condenser.partial_fit(self._features(frame), self._classes(frame))
        except DataError as error:
            if frame.height == 1:
                self.rejects.add(lines[0], str(error))
                return
            half = frame.height // 2
            self._insert(frame[:half], lines[:half])
            self._insert(frame[half:], lines[half:])
            return
        self._note_waiting(before, lines)

    def _note_waiting(self, before: int, lines: list[Line]) -> None:
        assert self.condenser is not None
        self.places = {
            number: lines[number - before].place if number >= before else self.places[number]
            for number in self.condenser.waiting_numbers()
        }

    def _features(self, frame: pl.DataFrame) -> pl.DataFrame:
        classes = self.settings.class_column
        return frame if classes is None else frame.drop(classes)

    def _classes(self, frame: pl.DataFrame) -> pl.Series | None:
        classes = self.settings.class_column
        return None if classes is None else frame[classes]
