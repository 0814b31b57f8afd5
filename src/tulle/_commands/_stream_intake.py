"""Lines in, records condensed: typing and refusing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from tulle._commands._stream_settings import Settings
from tulle._plurals import counted
from tulle._progress import log
from tulle.condense._levels import level_problems
from tulle.errors import DataError, OutputExists, PrivacyError
from tulle.io._text import Reasons, TypedRecords
from tulle.stream import StreamCondenser
from tulle.stream._checkpoints import StreamTally
from tulle.stream._records import RecordReader
from tulle.stream._sources import Lines, Source
from tulle.table._codecs import Problem, first_reasons
from tulle.table._encoder import unfit_values
from tulle.table._series import is_missing
from tulle.table.schema import Schema

# The file of refused lines: where each was and why, never what it held.

_MOST_REFUSED = 10_000  # lines, before a record that begins the stream
_JUDGED = 1_000  # lines of which the share of refused ones is judged


class Rejects:
    """Refused lines wait for a checkpoint, which holds them itself, and then go to the file.

    So the file begins after the state does, and after a kill at any moment it is cut back to the
    length that the checkpoint knows, and what is pending in the checkpoint comes again: no
    refusal is lost or listed twice.
    """

    def __init__(self, path: Path, tally: StreamTally, *, fresh: bool) -> None:
        self.path = path
        self.tally = tally
        size = path.stat().st_size if path.exists() else 0
        if fresh and size:
            raise OutputExists(f"{path} already exists: move it, or pass --force to replace it")
        if size < tally.reject_bytes:
            raise DataError(f"{path} is shorter than the state says: it was changed")
        if size > tally.reject_bytes:
            os.truncate(path, tally.reject_bytes)
        self.flush()

    def add(self, source: str, number: int, reason: str) -> None:
        entry = {"source": source, "line": number, "reason": reason}
        self.tally.rejected += 1
        self.tally.pending_rejects.append(json.dumps(entry) + "\n")

    def flush(self) -> None:
        """Append what is pending and sync it to disk: only what a checkpoint holds already."""
        if not self.tally.pending_rejects:
            return
        with open(self.path, "a", encoding="utf-8") as file:
            file.writelines(self.tally.pending_rejects)
            file.flush()
            os.fsync(file.fileno())
        self.tally.reject_bytes = self.path.stat().st_size
        self.tally.pending_rejects.clear()


class Intake:
    """Feeds a condenser from lines; begins with the initial ones, which settle the types."""

    def __init__(self, reader: RecordReader, rejects: Rejects, settings: Settings) -> None:
        self.reader = reader
        self.rejects = rejects
        self.tally = rejects.tally
        self.settings = settings
        self.condenser: StreamCondenser | None = None
        self.initial = _Initial()
        self.began_with = 0  # records, if it was in this run
        # lines read and refused when the share of these was last judged
        self.judged = (self.tally.read, self.tally.rejected)

    @property
    def seen(self) -> int:
        return 0 if self.condenser is None else int(self.condenser.n_seen_)

    def progress(self) -> str:
        if self.condenser is None:
            wanted = self.settings.options.init
            return f"{self.initial.records:,} of the first {wanted:,} records"
        return f"{counted(self.seen, 'record')}"

    def take(self, lines: Lines) -> None:
        """Condense lines, or keep them until the initial records are complete."""
        read = len(lines) - lines.texts.count(b"")
        if self.condenser is not None:
            records = self.reader.records(lines.texts, lines.faults)
            self._refuse_keys(records)
            self.tally.read += read
            self._condense(lines, records._replace(frame=self.settings.leveled(records.frame)))
            return
        self.tally.read += read
        self.initial.add(lines, self.reader)
        if self.initial.records >= self.settings.options.init:
            self.begin()

    def _refuse_keys(self, records: TypedRecords) -> None:
        """Raise for lines without a key that all initial ones have, if the owner asked for that."""
        if records.lacking and self.settings.options.strict_keys:
            names = ", ".join(f"'{name}'" for name in records.lacking)
            lines = counted(max(records.lacking.values()), "record", "lack")
            raise DataError(
                f"{lines} {names}, which all initial records have: was it renamed? Nothing of this "
                "batch was counted (--strict-keys): correct the source, or run the command without "
                "it"
            )

    def _note_keys(self, records: TypedRecords, wrong: Reasons) -> Reasons:
        """Count lines without a key that all initial ones have, and report the first ones.

        Return the reasons for which rows are refused, which say so where it is all that is wrong.
        """
        for name, count in records.lacking.items():
            rows = np.flatnonzero(is_missing(records.frame[name])).tolist()
            refused = [row for row in rows if f"column '{name}'" in wrong.get(row, "")]
            if len(rows) == count:  # none of them has the key and no value
                reason = (
                    f"there is no key '{name}', which all initial records have: was it renamed?"
                )
                wrong = wrong | dict.fromkeys(refused, reason)
            lacking, lost = self.tally.lacking_keys, self.tally.lost_keys
            new = name not in lacking
            lacking[name] = lacking.get(name, 0) + count
            lost[name] = lost.get(name, 0) + len(refused)
            if new:
                log(f"warning: {self.lacking_words(name)}; --strict-keys stops instead")
        return wrong

    def lacking_words(self, name: str) -> str:
        """Say how many records lack a key, and what became of them."""
        count, lost = self.tally.lacking_keys[name], self.tally.lost_keys.get(name, 0)
        lines = counted(count, "record", "lack")
        told = f"{lines} '{name}', which all initial records have: was it renamed? "
        if not lost:
            return told + "The values count as missing"
        whole = "All of them" if lost == count else f"{lost:,} of them"
        return told + f"{whole} were refused, since no initial record misses a value there"

    def judge_rejects(self, *, ended: bool = False) -> None:
        """Raise if more of the latest lines were refused than the owner allows."""
        most, (read, refused) = self.settings.options.max_rejects, self.judged
        lines, wrong = self.tally.read - read, self.tally.rejected - refused
        if most is None or lines < (1 if ended and not read else _JUDGED):
            return
        self.judged = (self.tally.read, self.tally.rejected)
        if wrong > most * lines:
            raise DataError(
                f"{wrong:,} of the last {counted(lines, 'line', 'was')} refused "
                f"({wrong / lines:.1%}, more than --max-rejects {most:.1%} allows): "
                f"{self.rejects.path} lists them with reasons. Everything up to here is counted: "
                "correct the source, and run the same command again"
            )

    def begin(self) -> None:
        initial = self.initial
        if not initial.records:
            self.reader.refuse_no_header()
            raise DataError("the source contains no record" + initial.complaint())
        lines = Lines.joined(initial.lines)
        records = self.reader.begin(lines.texts, lines.faults, self.settings.declared())
        self._condense(lines, records._replace(frame=self.settings.plan(records.frame)))
        self.initial = _Initial()

    def _condense(self, lines: Lines, records: TypedRecords) -> None:
        """Condense typed records; refusals are listed in the order of the lines."""
        self.tally.surplus_keys += records.surplus
        refused = dict(records.refused)
        frame, places = records.frame, records.places
        problems = list(self._problems(frame))
        if self.condenser is None:
            problems += unfit_values(frame, Schema(self.settings.columns))
        wrong = first_reasons(problems)
        fine = np.setdiff1d(np.arange(frame.height), list(wrong))
        if self.condenser is not None and len(fine):
            taken = frame[fine] if wrong else frame
            far = self.condenser._take_fine(*self.settings.parted(taken))
            wrong |= {int(fine[row]): reason for row, reason in far.items()}
        if records.lacking:
            wrong = self._note_keys(records, wrong)
        if wrong:
            refused |= {int(places[row]): reason for row, reason in wrong.items()}
        if self.condenser is None:
            self._start(frame[fine], refused)
        for place in sorted(refused):
            self.rejects.add(lines.origins[place], lines.numbers[place], refused[place])

    def _problems(self, frame: pl.DataFrame) -> Iterator[Problem]:
        """Yield what is wrong with a record's level or class; initial records are checked too."""
        level, classes = self.settings.level_column, self.settings.class_column
        if level is not None:
            if not frame[level].dtype.is_integer():
                raise DataError(f"the levels in '{level}' must be whole numbers")
            yield from level_problems(frame[level])
        if classes is not None and frame[classes].null_count():
            reason = f"the class in column '{classes}' is missing"
            yield Problem(is_missing(frame[classes]), reason, "give every record a class")

    def _start(self, frame: pl.DataFrame, refused: Reasons) -> None:
        condenser = self.settings.condenser(frame.height, self.settings.options.seed)
        condenser.partial_fit(*self.settings.parted(frame))
        if not len(condenser.counts_):
            raise PrivacyError(
                f"{counted(frame.height, 'record', 'is')} too few for one group of their level, "
                "and nothing was written: wait for more, or start with more "
                f"(--init){_complaint(refused)}"
            )
        self.began_with = frame.height
        self.condenser = condenser

    def reread(self, source: Source, most: int) -> pl.DataFrame:
        """Return the first records of a source that was opened at its beginning, without refusals.

        They are read as the stream reads them, and are condensed by nobody.
        """
        assert self.condenser is not None
        frames: list[pl.DataFrame] = []
        while (left := most - sum(frame.height for frame in frames)) > 0:
            lines = source.read(left)
            if lines is None or not len(lines):
                break
            frame = self.settings.leveled(self.reader.records(lines.texts, lines.faults).frame)
            wrong = first_reasons(list(self._problems(frame)))
            wrong |= self.condenser.refusals(self.settings.parted(frame)[0])
            frames.append(frame[np.setdiff1d(np.arange(frame.height), list(wrong))])
        return pl.concat(frames)


class _Initial:
    """Texts until there are enough of them to settle the types, and why some are refused."""

    def __init__(self) -> None:
        self.lines: list[Lines] = []
        self.records = 0
        self.refused: Reasons = {}

    def add(self, lines: Lines, reader: RecordReader) -> None:
        first = sum(map(len, self.lines))
        records, refused = reader.well_formed(lines.texts)
        self.records += records
        self.refused |= {first + at: why for at, why in (refused | {**lines.faults}).items()}
        self.lines.append(lines)
        if len(self.refused) > max(_MOST_REFUSED, self.records):
            raise DataError(
                f"{counted(self.records, 'record', 'is')} too few to start with{self.complaint()}"
            )

    def complaint(self) -> str:
        return _complaint(self.refused)


def _complaint(refused: Reasons) -> str:
    """Say what was refused, for people who gave the wrong file."""
    if not refused:
        return ""
    first = refused[min(refused)]
    return f": {counted(len(refused), 'line', 'was')} refused (the first: {first})"
