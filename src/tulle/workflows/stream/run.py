"""``tulle stream``: records in from a source, a state and snapshot releases out."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from tulle.condense.stream import StreamCondenser
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.files import refuse_same
from tulle.keys import SecretKey
from tulle.progress import bar
from tulle.random import seed_policy
from tulle.tables.policy import load_policy
from tulle.tables.schema import Column, Kind, Role
from tulle.workflows.stream.checkpoints import Checkpoint, locked, return_waiting
from tulle.workflows.stream.lines import Line
from tulle.workflows.stream.opening import format_of_source, open_source
from tulle.workflows.stream.records import RecordReader, Row
from tulle.workflows.stream.rejects import Rejects
from tulle.workflows.stream.releasing import prepare_folder, write_snapshot
from tulle.workflows.stream.sources import Source
from tulle.workflows.table_policy import column_of, plan_columns

BATCH = 5_000  # lines read at a time: the bound on memory beside the state
PAUSE = 0.2  # seconds between looks at a source that has nothing new
DEFAULTS: dict[str, Any] = {
    "k": 10,
    "init": 1_000,
    "split": "paper",
    "grouping": "fast",
    "synthesis": "uniform",
    "snapshots": "bounded",
    "every": None,
    "seconds": None,
    "checkpoint": 5.0,
    "seed": None,
}
_FIXED = ("k", "split", "synthesis", "snapshots")  # may not change while a stream goes on


class Streamed(NamedTuple):
    """What a run did."""

    summary: dict[str, Any]
    snapshots: list[dict[str, Any]]
    notes: list[str]


def stream(
    source: str,
    output: str | os.PathLike[str],
    *,
    state: str | os.PathLike[str],
    policy: str | os.PathLike[str] | None = None,
    target: str | None = None,
    levels: str | None = None,
    kind: str | None = None,
    follow: bool = False,
    restart: str | None = None,
    key: SecretKey | None = None,
    plain_waiting: bool = False,
    force: bool = False,
    **options: Any,
) -> Streamed:
    """Condenses a stream until it ends, or until the process is asked to stop.

    Where the ``state`` file exists, the stream goes on from it. ``output`` is the folder of the
    snapshots. Options left at None follow the policy, then the defaults.
    """
    kind = kind or format_of_source(source)
    checkpoint = Checkpoint(state, key=key, plain_waiting=plain_waiting)
    refuse_same(source, state)
    with locked(state):
        prepare_folder(Path(output), resumed=checkpoint.exists(), force=force)
        run = _Run(checkpoint, Path(output), policy, target, levels, options)
        run.open(source, kind, follow=follow, restart=restart)
        try:
            with _asked_to_stop() as stop, bar("Condensing", 1.0) as advance:
                run.loop(stop, advance)
        finally:
            run.source.close()
        return run.finish()


class _Run:
    """One run of one stream; what must outlive it is in the checkpoint."""

    source: Source
    reader: RecordReader
    rejects: Rejects

    def __init__(
        self,
        checkpoint: Checkpoint,
        output: Path,
        policy: str | os.PathLike[str] | None,
        target: str | None,
        levels: str | None,
        options: dict[str, Any],
    ) -> None:
        self.checkpoint = checkpoint
        self.output = output
        self.policy = policy
        self.asked = {"target": target, "levels": levels}
        self.options = options
        self.wanted = _wanted(policy, options)
        self.condenser: StreamCondenser | None = None
        self.columns: list[Column] = []
        self.initial: list[tuple[Row, Line]] = []
        self.places: dict[int, Any] = {}  # where in the source the waiting records are
        self.read = self.made = self.shown = self.resumed_at = 0
        self.written: list[dict[str, Any]] = []
        self.saved_at = self.shown_at = time.monotonic()
        self.dirty = False

    # -- opening -------------------------------------------------------------------------------

    def open(self, address: str, kind: str, *, follow: bool, restart: str | None) -> None:
        """Begins, or goes on from the checkpoint."""
        path = self.checkpoint.path
        rejects = path.with_name(path.name + ".rejects.ndjson")
        if not self.checkpoint.exists():
            self.source = open_source(address, kind, follow=follow, position=None, restart=None)
            self.reader = RecordReader(kind, self.source.header())
            self.rejects = Rejects(rejects, count=0, length=None)
            return
        self.condenser, extra, owed = self.checkpoint.read()
        self._restore(extra)
        self.source = open_source(
            address, kind, follow=follow, position=extra["position"], restart=restart
        )
        self.reader = RecordReader(kind, self.source.header())
        self.reader.restore(extra["reader"])
        lines = self.source.again([self.places[waiter["number"]] for waiter in owed])
        if owed:
            rows = [row for row, _ in map(self.reader.parse, lines) if row is not None]
            records = self._features(self.reader.frame(rows)[0])
            return_waiting(self.condenser, owed, records)
        self.rejects = Rejects(rejects, count=extra["rejected"], length=extra["reject_bytes"])

    def _restore(self, extra: dict[str, Any]) -> None:
        assert self.condenser is not None
        before = extra["parameters"]
        for name in _FIXED:
            if self.options.get(name) not in (None, before[name]):
                raise ParameterError(
                    f"this stream began with {name}={before[name]}: it cannot change while the "
                    "stream goes on. Start a new state"
                )
        if (self.asked["target"] or extra["target"]) != extra["target"]:
            raise ParameterError(f"this stream began with the target {extra['target']}")
        self.wanted |= {name: before[name] for name in _FIXED}
        self.columns = [
            Column(name, Kind(kind), Role(role)) for name, kind, role in extra["columns"]
        ]
        self.places = {int(number): place for number, place in extra["waiting"].items()}
        self.read, self.made, self.shown = extra["read"], extra["snapshots"], extra["shown"]
        self.resumed_at = self.condenser.n_seen_

    # -- the loop ------------------------------------------------------------------------------

    def loop(self, stop: list[int], advance: Any) -> None:
        """Reads, condenses, saves and releases until the source ends or somebody says stop."""
        while not stop:
            self._keep_up()  # first: a run that was killed here goes on here
            lines = self.source.read(self._room())
            if lines is None:
                break
            self._take(lines)
            advance(0.0, note=f"{self._seen:,} records")
            if not lines:
                time.sleep(PAUSE)
        if self.condenser is None:
            self._begin()
        self._save()

    @property
    def _seen(self) -> int:
        return 0 if self.condenser is None else int(self.condenser.n_seen_)

    def _room(self) -> int:
        """How many lines to read: the initial records, and snapshots, end with a batch."""
        every = self.wanted["every"]
        if self.condenser is None:
            return int(min(BATCH, self.wanted["init"] - len(self.initial)))
        if every is None:
            return BATCH
        return int(min(BATCH, every - self._seen % every))

    def _take(self, lines: list[Line]) -> None:
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
        self.dirty = self.dirty or bool(lines)
        if self.condenser is not None:
            self._insert(*self._typed(rows))
            return
        self.initial += rows
        if len(self.initial) >= self.wanted["init"]:
            self._begin()

    def _keep_up(self) -> None:
        """Snapshots and checkpoints that are due."""
        if self.condenser is None:
            return
        now, every, seconds = time.monotonic(), self.wanted["every"], self.wanted["seconds"]
        fresh = self._seen > self.shown
        by_count = every is not None and self._seen // every > self.shown // every
        by_time = seconds is not None and fresh and now - self.shown_at >= seconds
        if by_count or by_time:
            self._show()
        elif self.rejects.full or (self.dirty and now - self.saved_at >= self.wanted["checkpoint"]):
            self._save()

    # -- records -------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Makes the groups of the initial records, and the first checkpoint."""
        rows, lines = [row for row, _ in self.initial], [line for _, line in self.initial]
        if not rows:
            raise DataError("the source holds no record")
        known = [] if self.policy is None else list(load_policy(self.policy).columns)
        self.reader.learn(rows, known)
        frame, kept = self._typed(self.initial)
        self.columns, self.wanted = plan_columns(
            frame, self.policy, "stream", DEFAULTS, self.options, **self.asked
        )
        frame, kept = self._with_level_and_class(frame, kept)
        target = self._target()
        condenser = StreamCondenser(
            self.wanted["k"],
            init_size=max(2, frame.height),
            split=self.wanted["split"],
            grouping=self.wanted["grouping"],
            synthesis=self.wanted["synthesis"],
            classwise=target is not None,
            columns=[column for column in self.columns if column.name != target],
            random_state=self.wanted["seed"],
        )
        condenser.partial_fit(self._features(frame), self._classes(frame))
        if not len(condenser.counts_):
            raise PrivacyError(
                f"{len(lines)} records are too few for one group of their level: nothing was "
                "written. Wait for more"
            )
        self.condenser = condenser
        self.initial = []
        self._note_waiting(0, kept)
        self._save()

    def _typed(self, rows: list[tuple[Row, Line]]) -> tuple[pl.DataFrame, list[Line]]:
        """Typed records and their lines; what does not fit is refused."""
        frame, reasons = self.reader.frame([row for row, _ in rows])
        kept = []
        for (_, line), reason in zip(rows, reasons):
            if reason:
                self.rejects.add(line, reason)
            else:
                kept.append(line)
        return self._with_level_and_class(frame, kept) if self.columns else (frame, kept)

    def _with_level_and_class(
        self, frame: pl.DataFrame, lines: list[Line]
    ) -> tuple[pl.DataFrame, list[Line]]:
        """Refuses records without a level of 1 or more, or without a class."""
        level, target = column_of(self.columns, Role.LEVEL), self._target()
        fine = pl.repeat(True, frame.height, eager=True)
        if level is not None:
            if not frame[level.name].dtype.is_integer():
                raise DataError(f"the levels in '{level.name}' must be whole numbers")
            fine &= (frame[level.name] >= 1).fill_null(False)
        if target is not None:
            fine &= frame[target].is_not_null()
        if fine.all():
            return frame, lines
        for place in (~fine).arg_true():
            self.rejects.add(lines[place], "the level or the class is missing or not allowed")
        return frame.filter(fine), [line for line, good in zip(lines, fine) if good]

    def _insert(self, frame: pl.DataFrame, lines: list[Line]) -> None:
        """Condenses records; if one is refused (a category never seen, say), halves find it."""
        assert self.condenser is not None
        if not frame.height:
            return
        before = self._seen
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
        waiting = self.condenser.waiting_numbers()
        fresh = {number: lines[number - before].place for number in waiting if number >= before}
        known = {number: self.places[number] for number in waiting if number < before}
        self.places = known | fresh

    def _target(self) -> str | None:
        """The column of classes; a target that is a quantity is condensed with the others."""
        target = column_of(self.columns, Role.TARGET)
        is_class = target is not None and target.kind in (
            Kind.CATEGORY,
            Kind.BOOLEAN,
            Kind.TEXT,
            Kind.INTEGER,
        )
        return target.name if target is not None and is_class else None

    def _features(self, frame: pl.DataFrame) -> pl.DataFrame:
        target = self._target()
        return frame if target is None else frame.drop(target)

    def _classes(self, frame: pl.DataFrame) -> pl.Series | None:
        target = self._target()
        return None if target is None else frame[target]

    # -- what goes out -------------------------------------------------------------------------

    def _save(self) -> None:
        assert self.condenser is not None
        extra = {
            "position": self.source.position,
            "reader": self.reader.to_json(),
            "parameters": {name: self.wanted[name] for name in _FIXED},
            "columns": [[c.name, c.kind.value, c.role.value] for c in self.columns],
            "target": self._target(),
            "waiting": {str(number): place for number, place in self.places.items()},
            "read": self.read,
            "snapshots": self.made,
            "shown": self.shown,
            "rejected": self.rejects.count,
            "reject_bytes": self.rejects.flush(),
        }
        self.checkpoint.write(self.condenser, extra)
        self.saved_at, self.dirty = time.monotonic(), False

    def _show(self) -> None:
        """One snapshot release. Killed before its checkpoint, it is made again, the same."""
        assert self.condenser is not None
        path = self.output / f"snapshot-{self.made + 1:06d}.parquet"
        self.written.append(
            write_snapshot(
                self.condenser,
                path,
                policy=self.wanted["snapshots"],
                columns=self.columns,
                target=self._target(),
                parameters=self.wanted,
                counts=self._counts(),
                source=self.source.name,
                seed=seed_policy(self.wanted["seed"]),
            )
        )
        self.made, self.shown = self.made + 1, self._seen
        self.shown_at = time.monotonic()
        self._save()

    def _counts(self) -> dict[str, Any]:
        assert self.condenser is not None
        return {
            "read": self.read,
            "seen": self._seen,
            "condensed": int(self.condenser.counts_.sum()),
            "waiting": self.condenser.n_waiting_,
            "rejected": self.rejects.count,
        }

    def finish(self) -> Streamed:
        """A last snapshot, if there is something new to show, and the summary."""
        assert self.condenser is not None
        if self._seen > self.shown:
            self._show()
        sizes = self.condenser.counts_
        summary = self._counts() | {
            "resumed_after": self.resumed_at,
            "groups": len(sizes),
            "smallest_group": int(sizes.min()),
            "largest_group": int(sizes.max()),
            "snapshots": self.made,
            "state": str(self.checkpoint.path),
        }
        notes = list(self.condenser.notes_)
        if self.rejects.count:
            notes.append(f"Refused lines, with reasons: {self.rejects.path}")
        return Streamed(summary, self.written, notes)


def _wanted(policy: str | os.PathLike[str] | None, options: dict[str, Any]) -> dict[str, Any]:
    """The options before the columns are known: asked, else the policy's, else the defaults."""
    told = {} if policy is None else load_policy(policy).options("stream", DEFAULTS)
    asked = {name: value for name, value in options.items() if value is not None}
    wanted = {**DEFAULTS, **told, **asked}
    wanted["init"] = max(int(wanted["init"]), 2 * int(wanted["k"]))
    return wanted


@contextmanager
def _asked_to_stop() -> Iterator[list[int]]:
    """Collects SIGTERM and SIGINT: the batch at hand is finished and saved first."""
    asked: list[int] = []
    before = {}
    for number in (signal.SIGTERM, signal.SIGINT):
        before[number] = signal.signal(number, lambda number, frame: asked.append(number))
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
