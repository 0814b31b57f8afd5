"""``tulle stream``: records in from a source, a state and snapshot releases out."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tulle._brokers import broker_at, is_broker
from tulle._commands._columns import unit_notes
from tulle._commands._decision import Done, Refused, check_accepted
from tulle._commands._sources import signing_key, writing_beside
from tulle._commands._stream_settings import Settings
from tulle._files import atomic_write, refuse_existing
from tulle._plurals import counted
from tulle._progress import bar, log
from tulle._random import seed_policy
from tulle._report.model import Result, Verdict
from tulle.auditing.audit import Audit
from tulle.errors import DataError, TulleError
from tulle.keys import SecretKey, SigningKey
from tulle.table.schema import Column, Role, Schema

if TYPE_CHECKING:  # loaded where they are used: a wrong file name is answered at once
    from tulle._commands._stream_intake import Intake
    from tulle.stream import StreamCondenser
    from tulle.stream._checkpoints import Checkpoint, Resumption, StreamTally
    from tulle.stream._sources import Lines, Position, Source

# From the word on the command line to a source.

_ENDINGS = {
    "csv": (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz"),
    "ndjson": (".ndjson", ".jsonl", ".json", ".ndjson.gz", ".jsonl.gz", ".json.gz"),
}
_PACKED = (".bz2", ".xz", ".zst", ".zip")


def format_of_source(address: str) -> str:
    """Return CSV or NDJSON, by the suffix of the file or of the first files in a folder."""
    if is_broker(address):
        return "ndjson"
    names = [address]
    if os.path.isdir(address):
        names = sorted(entry.name for entry in os.scandir(address) if entry.is_file())
    for name in names:
        for kind, endings in _ENDINGS.items():
            if name.endswith(endings):
                return kind
    if address.endswith(_PACKED):
        raise DataError(
            f"{address} is compressed in a way that is not read: use .gz, or pipe it in with - as "
            "the source"
        )
    if os.path.isdir(address):
        raise DataError(
            f"{address} has no file yet that ends in {', '.join(_ENDINGS['csv'][:3])} (CSV) or "
            f"{', '.join(_ENDINGS['ndjson'][:3])} (NDJSON): put some there, or pass --format and "
            "--follow to wait for them"
        )
    raise TulleError(f"cannot tell whether {address} is CSV or NDJSON: pass --format csv or ndjson")


def open_source(
    address: str,
    kind: str,
    *,
    follow: bool,
    position: Position | None,
    restart: str | None,
    before: str | None = None,
) -> Source:
    """Open standard input (``-``), a broker (``nats://``), a folder or a file, at a position.

    Positions are those of the kind of source that was read ``before``.
    """
    from tulle.stream._folder import FolderSource
    from tulle.stream._sources import FileSource, StandardInput

    opened: Any
    known: dict[str, Any] = {"has_header": kind == "csv"}
    if address == "-":
        opened, known["restart"] = StandardInput, restart
    elif is_broker(address):
        if kind == "csv":
            raise TulleError("messages from a broker must be NDJSON, one object per message")
        opened, known = broker_at(address), {"continued": restart == "continued"}
    elif os.path.isdir(address):
        opened, known["endings"] = FolderSource, _ENDINGS[kind]
    else:
        opened, known["continued"] = FileSource, restart == "continued"
    if before not in (None, opened.kind):
        raise DataError(
            f"this state has read from {before}: continue with that, or start a new state"
        )
    if address != "-":
        known = {"follow": follow, **known}
    source: Source = opened(*([address] if address != "-" else []), position=position, **known)
    return source


def check_places(
    source: str,
    output: str | os.PathLike[str],
    state: str | os.PathLike[str],
    report: str | os.PathLike[str] | None,
    metrics: str | os.PathLike[str] | None = None,
) -> None:
    """Raise for a missing source, or for one path with two uses: one would overwrite the other."""
    if source != "-" and not is_broker(source) and not os.path.exists(source):
        raise DataError(f"{source} does not exist: pass a file, a folder, or - for standard input")
    taken = {Path(source).resolve(): "the source", Path(output).resolve(): "the output folder"}
    for option, name in (("--state", state), ("--report", report), ("--metrics", metrics)):
        if name is None:
            continue
        path = Path(name).resolve()
        if path in taken:
            raise TulleError(f"{option} {name} is the same as {taken[path]}: choose another name")
        taken[path] = f"the file of {option}"


# What the owner of a stream sees from outside: its status, and metrics for a monitor.

LEFT_OUT = (Role.IDENTIFIER, Role.PERSON, Role.IGNORED)  # roles of columns in no snapshot

# What is counted, and whether it only ever grows.
_METRICS = {
    "read": ("counter", "Lines read from the source."),
    "seen": ("counter", "Records that the stream has taken."),
    "condensed": ("gauge", "Records in groups."),
    "waiting": ("gauge", "Records that no group may take yet."),
    "groups": ("gauge", "Groups of the stream."),
    "smallest_group": ("gauge", "Records in the smallest group."),
    "rejected": ("counter", "Lines that were refused."),
    "surplus_keys": ("counter", "Records with keys that the initial records do not have."),
    "lacking_keys": ("counter", "Records without a key that all initial records have."),
    "snapshots": ("counter", "Snapshots written."),
    "shown": ("gauge", "Records seen when the last snapshot was written."),
}


def status(state: str | os.PathLike[str], key: SecretKey | None = None) -> dict[str, Any]:
    """Show the counts of a stream from its state, running or not; the key next to it by default."""
    from tulle.stream._checkpoints import Checkpoint, is_running

    checkpoint = Checkpoint(state, key=key)
    if not checkpoint.exists():
        raise DataError(f"{state} does not exist: a stream writes it after its initial records")
    condenser, beside = checkpoint.read()
    saved = datetime.fromtimestamp(Path(state).stat().st_mtime, UTC)
    columns = [Column.from_json(entry["column"]) for entry in beside.settings["columns"]]
    return {
        "state": str(state),
        "running": is_running(state),
        "saved": saved.isoformat(timespec="seconds"),
        **counts_of(condenser, beside.tally),
        "snapshots": beside.tally.snapshots,
        "shown": beside.tally.shown,
        "k": condenser.k,
        "source": beside.place,
        "left_out": Schema(columns).named(*LEFT_OUT),
    }


def counts_of(condenser: StreamCondenser | None, tally: StreamTally) -> dict[str, Any]:
    """Count lines, records and groups so far."""
    from tulle._commands._stream_snapshots import sizes_told

    counts = {"read": tally.read, "seen": 0 if condenser is None else condenser.n_seen_}
    if condenser is not None:
        sizes = condenser.counts_
        counts |= {
            "condensed": int(sizes.sum()),
            "waiting": condenser.n_waiting_,
            **sizes_told(sizes),
        }
    return counts | {
        "rejected": tally.rejected,
        "surplus_keys": tally.surplus_keys,
        "lacking_keys": sum(tally.lacking_keys.values()),
    }


def write_metrics(
    path: str | os.PathLike[str], state: str | os.PathLike[str], counts: Mapping[str, Any]
) -> None:
    """Replace a text file of metrics, as the node exporter of Prometheus collects it."""
    name = str(state).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    lines = []
    for word, (kind, meaning) in _METRICS.items():
        if word not in counts:
            continue
        metric = f"tulle_stream_{word}" + ("_total" if kind == "counter" else "")
        lines.append(f"# HELP {metric} {meaning}\n# TYPE {metric} {kind}\n")
        lines.append(f'{metric}{{state="{name}"}} {counts[word]}\n')
    metric = "tulle_stream_saved_timestamp_seconds"
    lines.append(f"# HELP {metric} When the state was last saved.\n# TYPE {metric} gauge\n")
    lines.append(f'{metric}{{state="{name}"}} {int(datetime.now(UTC).timestamp())}\n')
    with atomic_write(path, force=True) as file:
        file.write("".join(lines).encode())


# Ctrl-C and SIGTERM: the batch at hand is finished and saved first.


@contextmanager
def asked_to_stop() -> Iterator[list[int]]:
    """Collect signals; a thread other than the main one gets none."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {
        number: signal.signal(number, lambda number, frame: asked.append(number))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# What a run tells its owner in the end, beside counts.


def notes_of(intake: Intake, source: Source | None) -> list[str]:
    """Return what else the owner should know, in sentences without data."""
    notes = [
        f"Stopped after {intake.progress()} (--init): nothing was written, and the next run "
        "starts from the beginning"
    ]
    if intake.condenser is not None:
        notes = [*intake.condenser.notes_, *_notes_of_columns(intake)]
    if source is not None:
        notes += source.notes()
    tally = intake.tally
    if tally.surplus_keys:
        notes.append(
            f"{counted(tally.surplus_keys, 'record', 'have')} keys that the initial records do not "
            "have: these keys were ignored"
        )
    notes += [intake.lacking_words(name) for name in tally.lacking_keys]
    if tally.rejected:
        notes.append(f"Refused lines, with reasons: {intake.rejects.path}")
    return notes


def _notes_of_columns(intake: Intake) -> list[str]:
    """Note whose levels apply, which columns are dropped, and how few records that rests on."""
    notes = []
    level = intake.settings.level_column
    if level is not None and "k" in intake.settings.options.words:
        notes.append(f"k is not used: the levels in column '{level}' determine the group sizes")
    if intake.settings.begun.get("drawn"):
        notes.append("The levels are drawn, for a trial: a run that resumes draws new ones afresh")
    notes += unit_notes(intake.settings.columns)
    columns = Schema(intake.settings.columns)
    left = columns.named(*LEFT_OUT)
    if left:
        names = ", ".join(f"'{name}'" for name in left)
        unless = "" if intake.settings.policy else ", unless a --policy says otherwise"
        notes.append(f"Not in any snapshot{unless}: {names}")
    if 0 < intake.began_with < 0.9 * intake.settings.options.init:  # else a few were refused
        notes.append(
            f"The stream started with {counted(intake.began_with, 'record')}, fewer than --init: "
            "column kinds and categories come from these records"
        )
    return notes


_MOST_PENDING = 10_000  # refused lines, before a checkpoint writes them
BATCH = 50_000  # lines condensed at a time, of which a source keeps a block of bytes at most


def stream(
    source: str,
    output: str | os.PathLike[str],
    *,
    state: str | os.PathLike[str],
    policy: str | os.PathLike[str] | None = None,
    target: str | None = None,
    levels: str | None = None,
    person: str | None = None,
    kind: str | None = None,
    follow: bool = False,
    restart: str | None = None,
    key: SecretKey | None = None,
    plain_waiting: bool = False,
    report: str | os.PathLike[str] | None = None,
    metrics: str | os.PathLike[str] | None = None,
    sign_key: str | os.PathLike[str] | None = None,
    accept_risk: str | None = None,
    force: bool = False,
    command: str = "",
    **options: Any,
) -> Done:
    """Condense a stream until it ends, or until the process is asked to stop.

    Where the ``state`` file exists, the stream resumes from it. ``output`` is the folder of the
    snapshots. Options left at None follow the policy, then the defaults. No record is kept that
    snapshots could be attacked with: a ``report`` measures what two of them tell, after they were
    written, and raises if that is bad and the risk is not accepted.
    """
    accepted = check_accepted(accept_risk)
    check_places(source, output, state, report, metrics)
    if report is not None and not Path(state).exists():  # a stream that resumes renews its report
        refuse_existing(report, force=force)
    signer = signing_key(sign_key)
    settings = Settings(policy, target, levels, person, options)

    from tulle.stream._checkpoints import Checkpoint, locked

    checkpoint = Checkpoint(state, key=key, plain=plain_waiting)
    with locked(state):
        run = _Run(checkpoint, Path(output), settings, signer, metrics, accepted, force)
        try:
            run.open(source, kind, follow=follow, restart=restart)
            with asked_to_stop() as stop:
                with bar("Condensing", None) as advance:
                    run.loop(stop, lambda: advance(0.0, note=run.intake.progress()))
                    done = run.finish()
                if report is not None:
                    with bar("Auditing", None):
                        done = done._replace(verdict=run.report(report, command))
            verdict = done.verdict
            if verdict is not None and verdict["privacy"]["level"] == "bad" and not accepted:
                raise Refused(verdict, f"the snapshots in {output} are there: do not send them")
            return done
        finally:
            run.close()


@dataclass(repr=False)
class _Run:
    """One run of one stream; what must outlive it is in the checkpoint."""

    checkpoint: Checkpoint
    output: Path
    settings: Settings
    signer: SigningKey | None
    metrics: str | os.PathLike[str] | None
    accepted: str
    force: bool
    resumed_at: int = 0
    written: list[dict[str, Any]] = field(default_factory=list)
    saved_at: float = field(default_factory=time.monotonic)
    shown_at: float = field(default_factory=time.monotonic)
    dirty: bool = False
    source: Source | None = None
    opened: tuple[str, str] = ("", "")  # the address of the source, and its format
    intake: Intake = field(init=False)
    tally: StreamTally = field(init=False)

    def open(self, address: str, kind: str | None, *, follow: bool, restart: str | None) -> None:
        """Start, or resume from the checkpoint."""
        from tulle._commands._stream_intake import Intake, Rejects
        from tulle._commands._stream_snapshots import check_folder
        from tulle.stream._checkpoints import StreamTally
        from tulle.stream._records import RecordReader

        saved: Resumption | None = None
        self.tally = StreamTally()
        if self.checkpoint.exists():
            condenser, saved = self.checkpoint.read()
            self.tally = saved.tally
        made = self.tally.snapshots + self.tally.owes_snapshot
        check_folder(self.output, made=made, force=self.force)
        if saved is not None:
            kind = kind or str(saved.reader["kind"])
            self.settings.restore(saved.settings)
        kind = kind or format_of_source(address)
        self.opened = address, kind
        self.source = open_source(
            address,
            kind,
            follow=follow,
            position=None if saved is None else saved.position,
            restart=None if saved is None else restart,
            before=None if saved is None else saved.source_kind,
        )
        reader = RecordReader(kind, self.source.header(), self.source.name)
        if saved is not None:
            reader.restore(saved.reader)
        rejects = self.checkpoint.path.with_name(self.checkpoint.path.name + ".rejects.ndjson")
        with _written(rejects):
            refused = Rejects(rejects, self.tally, fresh=saved is None and not self.force)
        self.intake = Intake(reader, refused, self.settings)
        if saved is not None:
            self.intake.condenser = condenser
            self.resumed_at = self.intake.seen

    def loop(self, stop: list[int], report: Callable[[], None]) -> None:
        """Read, condense, save and release until the source ends or a signal arrives."""
        assert self.source is not None
        while not stop:
            self._keep_up()  # first: a run that was killed here resumes here
            before = self.source.position if self.settings.options.strict_keys else None
            lines = self._read()
            if lines is None:
                break
            began = self.intake.condenser is not None
            with self._saved_on_error(before):
                self.intake.take(lines)
            with self._saved_on_error():
                self.intake.judge_rejects()
            self.dirty = self.dirty or len(lines) > 0
            report()
            if not began and self.intake.condenser is not None:
                self._save()
        piped = self.opened[0] == "-" and self.intake.initial.records > 0  # nobody has them again
        if self.intake.condenser is None and (piped or not stop):
            self.intake.begin()
        with self._saved_on_error():
            self.intake.judge_rejects(ended=not stop)

    @contextmanager
    def _saved_on_error(self, position: Position | None = None) -> Iterator[None]:
        """Save what was condensed before an error ends the run; ``position``: up to where."""
        try:
            yield
        except DataError:
            if self.intake.condenser is not None:
                self._save(position)
            raise

    def close(self) -> None:
        if self.source is not None:
            self.source.close()

    def finish(self) -> Done:
        """Write a last snapshot if there is anything new to show, and return the summary."""
        if self.intake.seen > self.tally.shown:
            self._show()
        elif self.dirty and self.intake.condenser is not None:
            self._save()
        summary = counts_of(self.intake.condenser, self.tally) | {
            "resumed_after": self.resumed_at,
            "snapshots": self.tally.snapshots,
            "state": str(self.checkpoint.path),
            "rejects": str(self.intake.rejects.path) if self.tally.rejected else None,
            "left_out": Schema(self.settings.columns).named(*LEFT_OUT),
        }
        notes = notes_of(self.intake, self.source)
        return Done(summary, {"releases": self.written}, notes, self._unattacked())

    def _unattacked(self) -> Verdict:
        from tulle._commands._stream_snapshots import unattacked

        return Audit(unattacked(self.settings.options.k)).verdict

    def report(self, path: str | os.PathLike[str], command: str) -> Verdict:
        from tulle._commands._stream_snapshots import stream_result

        assert self.source is not None
        if self.intake.condenser is None:
            return self._unattacked()
        result = stream_result(
            self.intake.condenser,
            self.settings,
            counts_of(self.intake.condenser, self.tally),
            self.written,
            self.source.name,
        )
        context = dict(self.settings.options.policy.context)
        told: Result = {**result, "command": command, "context": context}
        judged = self._judged()
        found = Audit(told) if judged is None else judged.extended(**told)
        with writing_beside(f"the snapshots in {self.output} were written", path):
            found.save(path, force=True)  # checked in the beginning
        return found.verdict

    def _judged(self) -> Audit | None:
        """Audit snapshots of parts of the source, if that can be read again from its beginning."""
        from tulle._commands._stream_snapshots import JUDGED, judge

        address, kind = self.opened
        try:
            if address == "-":
                return None
            source = open_source(address, kind, follow=False, position=None, restart=None)
            try:
                if (source.header() or b"") != self.intake.reader.header:
                    return None
                records = self.intake.reread(source, JUDGED)
            finally:
                source.close()
        except DataError:
            return None  # it does not begin any more as it did
        return judge(records, self.settings)

    def _read(self) -> Lines | None:
        """Return the next lines; save what was condensed before a failing source ends the run."""
        assert self.source is not None
        with self._saved_on_error():
            return self.source.read(self._room())

    def _room(self) -> int:
        """Count how many lines to read: the initial records, and snapshots, end with a batch."""
        options = self.settings.options
        if self.intake.condenser is None:
            return int(min(BATCH, options.init - self.intake.initial.records))
        if options.every is None:
            return BATCH
        return int(min(BATCH, options.every - self.intake.seen % options.every))

    def _keep_up(self) -> None:
        if self.intake.condenser is None:
            return
        options, seen, now = self.settings.options, self.intake.seen, time.monotonic()
        every, seconds = options.every, options.seconds
        shown, full = self.tally.shown, len(self.tally.pending_rejects) >= _MOST_PENDING
        by_count = every is not None and seen // every > shown // every
        by_time = seconds is not None and seen > shown and now - self.shown_at >= seconds
        if by_count or by_time or self.tally.owes_snapshot:
            self._show()
        elif full or (self.dirty and now - self.saved_at >= options.checkpoint):
            self._save()

    def _save(self, position: Position | None = None) -> None:
        assert self.intake.condenser is not None
        assert self.source is not None
        position = self.source.position if position is None else position
        from tulle.stream._checkpoints import Resumption

        beside = Resumption(
            position,
            self.source.kind,
            self.source.place(position),
            self.intake.reader.to_json(),
            self.settings.to_json(),
            self.tally,
        )
        with _written(self.checkpoint.path):
            self.checkpoint.write(self.intake.condenser, beside)
        with _written(self.intake.rejects.path):
            self.intake.rejects.flush()  # only now: what the state does not know of is foreign
        if self.metrics is not None:
            shown = {"snapshots": self.tally.snapshots, "shown": self.tally.shown}
            counts = counts_of(self.intake.condenser, self.tally) | shown
            with _written(Path(self.metrics)):
                write_metrics(self.metrics, self.checkpoint.path, counts)
        self.saved_at, self.dirty = time.monotonic(), False

    def _show(self) -> None:
        """Write one snapshot release.

        The state says so first. Killed in between, the next run makes the same release before it
        reads on: two releases with one number could be subtracted.
        """
        from tulle._commands._stream_snapshots import clear_later, snapshot_path, write_snapshot

        assert self.intake.condenser is not None
        assert self.source is not None
        if not self.tally.owes_snapshot:
            self.tally.owes_snapshot = True
            self._save()
        kind = self.settings.options.snapshot_format
        path = snapshot_path(self.output, self.tally.snapshots + 1, kind)
        with _written(path):
            if self.force:
                clear_later(self.output, self.tally.snapshots)
            told = write_snapshot(
                self.intake.condenser,
                path,
                settings=self.settings,
                source=self.source.name,
                seed=seed_policy(self.settings.options.seed),
                sign_key=self.signer,
                accepted=self.accepted,
            )
        self.written.append(told)
        self.tally.snapshots += 1
        self.tally.shown, self.tally.owes_snapshot = self.intake.seen, False
        self.shown_at = time.monotonic()
        self._save()
        log(
            f"{path}: {counted(told['released'], 'row')} after {counted(told['seen'], 'record')}, "
            f"{counted(self.tally.rejected, 'line')} refused so far"
        )


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """Add to an error which file could not be written, and that nothing is lost."""
    try:
        yield
    except OSError as error:
        raise TulleError(
            f"cannot write {path}: {error.strerror}. The last checkpoint is intact: run the same "
            "command again once the file can be written"
        ) from None
