"""A table of the folder, and the files that belong to it.

``patients.csv`` has its policy next to it (``patients.policy.toml``, as ``tulle inspect`` writes
it) and a folder ``patients.csv.tulle`` with everything else: answers, jobs, points and
releases. Points depend on answers, and are in a folder named after them: other answers, other
folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shlex
import sqlite3
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tulle._app.jobs import RunningJob
from tulle._commands._copies import ledger_path
from tulle._commands.inspect import SILENT, policy_path
from tulle._files import atomic_write, digest
from tulle.errors import DataError, ParameterError, TulleError
from tulle.exploring._points import Point, points_in
from tulle.exploring.explore import Exploration
from tulle.io._formats import format_of
from tulle.table.policy import Policy, load_policy, write_policy
from tulle.table.schema import Column, Kind, Role

_NAME = re.compile(r"[^\x00-\x1f\x7f/\\]{1,200}")
_TABLE = re.compile(r"\w{1,100}")  # names of database tables that need no quoting
_RANK = ("good", "undecided", "caution", "bad")
SITES = "sites"  # stands for work that belongs to the folder and not to one file
_DATABASES = (".db", ".sqlite", ".sqlite3")


def studies(root: Path) -> list[Study]:
    """Return the tables of a folder: files of a known format, and tables of SQLite files."""
    found = [study for study in files(root) if is_table_name(study.name)]
    databases = [study for study in files(root) if study.source.suffix in _DATABASES]
    return found + [table for database in databases for table in _tables_of(database)]


def files(root: Path) -> list[Study]:
    """Return the files of a folder that are neither links nor hidden, whatever is in them."""
    entries = sorted(os.scandir(root), key=lambda entry: entry.name)
    names = [e.name for e in entries if e.is_file(follow_symlinks=False)]
    return [Study(root, name) for name in names if _is_plain(name)]


def is_table_name(name: str) -> bool:
    """Return whether a name is one of a table file within a folder: no path, not hidden."""
    if not _is_plain(name):
        return False
    try:
        format_of(name)
    except TulleError:
        return False
    return True


def _is_plain(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and not name.startswith((".", "-")) and "#" not in name


def _tables_of(database: Study) -> list[Study]:
    """Return the tables of a SQLite file; one that cannot be read has none."""
    address = f"file:{quote(str(database.source))}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=0.2)) as connection:
            rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            names = [str(name) for (name,) in rows]
    except sqlite3.Error:
        return []
    return [
        Study(database.root, f"{database.name}#{name}")
        for name in sorted(names)
        if _TABLE.fullmatch(name) and not name.startswith("sqlite_")
    ]


@dataclass(frozen=True)
class Release:
    """The folder of one release of a table."""

    place: Path
    number: int

    @property
    def job(self) -> RunningJob:
        """Condense, verify, draw, and attack with earlier releases."""
        return RunningJob(self.place / "job")

    @property
    def proof(self) -> RunningJob:
        """The same command in a fresh process."""
        return RunningJob(self.place / "proof-job")

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What was asked for: k, method, when, the seed and the command."""
        found: dict[str, Any] = json.loads((self.place / "run.json").read_text())
        return found

    @property
    def data(self) -> Path:
        """The released table."""
        return self.place / str(self.facts["file"])

    @property
    def policy(self) -> Policy:
        """The policy that it was made by."""
        return load_policy(self.place / "policy.toml")

    @property
    def chosen(self) -> dict[str, Any]:
        """Which k was taken, what was tried, and why."""
        found: dict[str, Any] = self.job.result(0).get("chosen") or {}
        return found

    @property
    def pictures(self) -> dict[str, Any]:
        """What was drawn: columns in original and release, and rows of the release."""
        return self.job.result(2)

    @property
    def verdict(self) -> dict[str, Any] | None:
        """The verdict of the release, also of one that was refused.

        The attacks with earlier releases come later and may find more.
        """
        found = [self.job.result(place).get("verdict") for place in (3, 0)]
        known = [verdict for verdict in found if verdict]
        return max(known, key=lambda v: _RANK.index(v["privacy"]["level"]), default=None)

    @property
    def together(self) -> list[dict[str, Any]]:
        """The attacks by whoever has this release and those before."""
        found = self.job.result(3).get("attacks", [])
        return [row for row in found if str(row.get("attack", "")).startswith("earlier")]

    @property
    def is_proven(self) -> bool:
        """Whether the command, run again, gave the same bytes."""
        fresh = self.place / self.facts["again"]
        return fresh.is_file() and self.data.is_file() and digest(fresh) == digest(self.data)

    def files(self) -> dict[str, tuple[Path, str]]:
        """Return what can be downloaded: the file and what it is, by a plain word."""
        report = self.place / "report.json"
        names = {
            "data": (self.data, "the release"),
            "manifest": (Path(f"{self.data}.manifest.json"), "how it was made, what was verified"),
            "ledger": (ledger_path(self.data), "makes intervals possible: send it"),
            "public": (report, "the public report: every figure rests on k people"),
            "report": (report, "your report: keep it with the data"),
            "policy": (self.place / "policy.toml", "roles, context and limits"),
            "log": (self.place / "run.json", "what was run, with the seed: keep it secret"),
            "script": (self.place / "again.sh", "makes and checks it again, with the seed"),
        }
        there = {word: pair for word, pair in names.items() if pair[0].is_file()}
        if not self.data.is_file():
            there.pop("public", None)  # there is nothing to send it with
        return there


@dataclass(frozen=True)
class Study:
    """A file of the folder ``root``, or a table of a SQLite file: ``clinic.db#visits``."""

    root: Path
    name: str

    @property
    def id(self) -> str:
        """What stands for the table in addresses, which must not hold names."""
        return hashlib.sha256(os.fsencode(self.name)).hexdigest()[:12]

    @property
    def source(self) -> Path:
        """The file that holds it."""
        return self.root / self.name.partition("#")[0]

    @property
    def word(self) -> str:
        """What commands that run in the folder call it."""
        return f"sqlite:///{self.name}" if "#" in self.name else self.name

    @property
    def address(self) -> str:
        """What any other process calls it."""
        return f"sqlite:///{self.root}/{self.name}" if "#" in self.name else str(self.source)

    @property
    def place(self) -> Path:
        """The folder of everything that belongs to it."""
        return self.root / f"{self.name.replace('#', '-')}.tulle"

    @property
    def policy_file(self) -> Path:
        """The policy, where the command line looks for it."""
        return self.root / policy_path(self.word)

    @property
    def size(self) -> int:
        """Bytes of the table."""
        return self.source.stat().st_size

    def job(self, name: str) -> RunningJob:
        """Return a job of this table."""
        return RunningJob(self.place / "jobs" / name)

    # -- answers of the person ---------------------------------------------------------------

    @property
    def answers(self) -> dict[str, Any]:
        """What was answered that a policy does not hold."""
        try:
            found = json.loads((self.place / "answers.json").read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def answer(self, **more: Any) -> None:
        """Keep answers."""
        self.place.mkdir(mode=0o700, exist_ok=True)
        keep(self.place / "answers.json", json.dumps({**self.answers, **more}))

    # -- columns -----------------------------------------------------------------------------

    @property
    def inspection(self) -> dict[str, Any]:
        """What ``tulle inspect`` found; empty before."""
        return self.job("inspect").result()

    def start_inspection(self) -> None:
        """Read the table and draw its columns; a policy that is there already is kept."""
        self.place.mkdir(mode=0o700, exist_ok=True)
        policy = self.within(self.policy_file)
        words = [["inspect", self.word, "--json"], ["pictures", self.word, policy]]
        self.job("inspect").start(self.root, words)

    @property
    def is_inspected(self) -> bool:
        """Whether the table was read and has a policy."""
        return bool(self.inspection) and self.policy_file.is_file()

    @cached_property
    def policy(self) -> Policy:
        """The policy as it is on disk, with the reasons that were found."""
        loaded = load_policy(self.policy_file)
        rows = self.inspection.get("columns", [])
        reasons = {row["name"]: row["reason"] for row in rows if row["reason"] != SILENT}
        columns = tuple(replace(c, reason=reasons.get(c.name, "")) for c in loaded.columns)
        return replace(loaded, columns=columns)

    @property
    def before(self) -> Path:
        """The policy as it was before the last change."""
        return self.place / "before.policy.toml"

    def keep_policy(self, policy: Policy) -> None:
        """Write the policy, and keep the one before it if that says something else."""
        before = self.policy_file.read_text() if self.policy_file.is_file() else ""
        write_policy(policy, self.policy_file, made_for=self.name, force=True)
        if before and before != self.policy_file.read_text():
            self.place.mkdir(mode=0o700, exist_ok=True)
            keep(self.before, before)
        self.__dict__.pop("policy", None)

    def set_column(
        self, *places: int, kind: str | None = None, role: str | None = None
    ) -> list[Column]:
        """Change kind or role of columns; a role of which there is one moves."""
        columns = list(self.policy.columns)
        if len(places) > 1 and role in _SINGLE:
            raise ParameterError(f"only one column can have the role {role}: choose it by itself")
        for place in places:
            if not 0 <= place < len(columns):
                raise ParameterError(f"there is no column {place} in {self.name}")
            changed = changed_column(columns[place], kind, role)
            for other, known in enumerate(columns):
                if changed.role in _SINGLE and known.role is changed.role and other != place:
                    columns[other] = replace(known, role=_SINGLE[changed.role])
            columns[place] = changed
        self.keep_policy(replace(self.policy, columns=tuple(columns)))
        return [columns[place] for place in places]

    def set_person(self, place: int | None) -> None:
        """Say whose row it is: the column of the person, or None if each row is one person."""
        columns = [
            replace(c, role=Role.IDENTIFIER) if c.role is Role.PERSON else c
            for c in self.policy.columns
        ]
        self.keep_policy(replace(self.policy, columns=tuple(columns)))
        if place is not None:
            self.set_column(place, role=Role.PERSON)
        self.answer(unit="row" if place is None else "person")

    def keep_out(self, places: Collection[int]) -> None:
        """Say which columns name people; what was taken for such a column and is not is known."""
        named = {Role.IDENTIFIER: Role.QUASI}
        columns = [
            replace(c, role=Role.IDENTIFIER if place in places else named.get(c.role, c.role))
            if c.role is not Role.PERSON
            else c
            for place, c in enumerate(self.policy.columns)
        ]
        self.keep_policy(replace(self.policy, columns=tuple(columns)))

    def column_with(self, role: Role) -> str | None:
        """Return the name of the column with a role."""
        if not self.policy_file.is_file():
            return None
        found = self.policy.named(role)
        return found[0] if found else None

    @property
    def persons(self) -> int | None:
        """How many people there are, if it is known."""
        rows = self.inspection.get("records")
        person = self.column_with(Role.PERSON)
        if person is None:
            return rows if self.answers.get("unit") == "row" else None
        known = {row["name"]: row["distinct"] for row in self.inspection.get("columns", [])}
        return known.get(person)

    # -- parameters of the policy ------------------------------------------------------------

    def parameters(self, command: str) -> Mapping[str, Any]:
        """Return what the policy says of a command."""
        return self.policy.parameters.get(command, {}) if self.policy_file.is_file() else {}

    def set_parameters(self, command: str, values: Mapping[str, Any]) -> None:
        """Set parameters of a command in the policy; None removes one."""
        merged = {**self.policy.parameters.get(command, {}), **values}
        merged = {name: value for name, value in merged.items() if value is not None}
        commands = {**self.policy.parameters, command: merged}
        kept = {name: options for name, options in commands.items() if options}
        self.keep_policy(replace(self.policy, parameters=kept))

    # -- exploration -------------------------------------------------------------------------

    @property
    def explore_place(self) -> Path:
        """Where the points are that these answers ask for."""
        columns = [repr(replace(column, reason="")) for column in self.policy.columns]
        decided = [columns, dict(self.parameters("explore")), self._stamp]
        return self.place / f"explore-{_digest(decided)}"

    @property
    def explore_job(self) -> RunningJob:
        """The job that measures them."""
        return RunningJob(self.explore_place / "job")

    def start_explore(self, *, quick: bool) -> None:
        """Measure releases, or go on where it was stopped."""
        words = ["explore", self.word, "--policy", self.within(self.policy_file), "--json"]
        words += ["-o", self.within(self.explore_place)]
        self.explore_job.start(self.root, [words + (["--quick"] if quick else [])])

    def exploration(self) -> Exploration | None:
        """Return the points that are there, in the order in which they were measured."""
        if not self.policy_file.is_file() or not self.explore_place.is_dir():
            return None
        found = sorted(points_in(self.explore_place), key=_order)
        return Exploration(found) if found else None

    # -- releases ----------------------------------------------------------------------------

    def releases(self) -> list[Release]:
        """Return the releases of this table, the first one first."""
        place = self.place / "releases"
        numbers = [int(p.name) for p in place.glob("*") if p.name.isdigit()]
        return [
            Release(place / str(n), n)
            for n in sorted(numbers)
            if (place / str(n) / "run.json").is_file()
        ]

    def release(self, number: int) -> Release:
        """Return one release."""
        for found in self.releases():
            if found.number == number:
                return found
        raise DataError(f"there is no release {number} of {self.name}")

    def start_release(
        self,
        *,
        k: int | None = None,
        point: Point | None = None,
        accept: str = "",
        changed: str = "",
        ledger: bool = False,
    ) -> Release:
        """Condense with the smallest k that passes, a given one, or as a point was; draw it."""
        number = max((found.number for found in self.releases()), default=0) + 1
        place = self.place / "releases" / str(number)
        place.mkdir(parents=True, mode=0o700)
        self._keep_release_policy(
            place / "policy.toml", by_class=point is None or point.spec.by_class
        )
        file, again, seed = (
            f"release{self._suffix}",
            f"again{self._suffix}",
            str(secrets.randbits(48)),
        )
        policy = self.within(place / "policy.toml")
        condense = ["condense", self.word, "-o", self.within(place / file), "--policy", policy]
        size = point.spec.k if point else k
        condense += ["--k", str(size)] if size else []
        condense += ["--synthesis", point.spec.method] if point else []
        condense += ["--ledger"] if ledger else []
        condense += ["--seed", seed] + (["--accept-risk", accept] if accept else [])
        replay = [*condense]
        replay[replay.index("-o") + 1] = self.within(place / again)
        facts = {
            "file": file, "label": f"k = {size}" if size else "the smallest k that passes",
            "created": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "seed": seed,
            "again": again, "command": [*replay, "--force"], "accepted": accept,
            "changed": changed,
        }  # fmt: skip
        keep(place / "run.json", json.dumps(facts, indent=2))
        both = self.within(place / file), self.within(place / again)
        keep(place / "again.sh", _script(replay, *both))
        commands = [
            [*condense, "--report", self.within(place / "report.json"), "--json"],
            ["verify", both[0], "--json"],
            ["pictures", self.word, policy, both[0]],
        ]
        earlier = [self.within(made.data) for made in self.releases() if made.data.is_file()]
        if earlier:  # whoever has all can compare them
            audit = ["audit", self.word, both[0], "--policy", policy, "--seed", seed, "--json"]
            commands.append([*audit, *(word for one in earlier for word in ("--earlier", one))])
        found = Release(place, number)
        found.job.start(self.root, commands)
        return found

    def start_proof(self, release: Release) -> None:
        """Run the command that gives the same release in a fresh process."""
        release.proof.start(self.root, [[*release.facts["command"], "--json"]])

    def _keep_release_policy(self, path: Path, *, by_class: bool) -> None:
        """Write the policy of a release; classes that are condensed together are no target."""
        columns = [
            replace(c, role=Role.QUASI) if c.role is Role.TARGET and not by_class else c
            for c in self.policy.columns
        ]
        write_policy(replace(self.policy, columns=tuple(columns)), path, made_for=self.name)

    @property
    def _suffix(self) -> str:
        if "#" in self.name:
            return ".csv"
        return {".tsv": ".csv"}.get(Path(self.name).suffix, "") or next(
            s for s in (".csv", ".ndjson", ".jsonl", ".parquet", ".pq", ".arrow", ".feather",
                        ".ipc", ".xlsx") if s in Path(self.name).suffixes
        )  # fmt: skip

    @property
    def _stamp(self) -> list[int]:
        found = self.source.stat()
        return [found.st_size, found.st_mtime_ns]

    def within(self, path: Path) -> str:
        """Return a path as a command that runs in the folder writes it."""
        return str(path.relative_to(self.root))


_SINGLE = {
    Role.PERSON: Role.IDENTIFIER, Role.TARGET: Role.QUASI, Role.LEVEL: Role.IGNORED,
    Role.WEIGHT: Role.IGNORED,
}  # fmt: skip


def changed_column(column: Column, kind: str | None, role: str | None) -> Column:
    """Return a column of another kind or role; bounds stay with numbers."""
    try:
        given = Kind(kind or column.kind), Role(role or column.role)
    except ValueError:
        raise ParameterError(f"column '{column.name}': no such kind or role") from None
    bounds = column.bounds if given[0] in (Kind.INTEGER, Kind.DECIMAL) else None
    return replace(column, kind=given[0], role=given[1], bounds=bounds)


def keep(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    with atomic_write(path, force=True, mode=0o600) as file:
        file.write(text.encode())


def _script(replay: list[str], made: str, again: str) -> str:
    place = replay.index("--seed")
    words = [*replay[:place], *replay[place + 2 :], "--force"]
    return (
        "#!/bin/sh\n"
        "# Makes the release again and compares the bytes. Run it in the folder of the table.\n"
        "# It holds the seed: whoever has table and seed has the release. Keep it secret.\n"
        "set -eu\n"
        f"TULLE_SEED={replay[place + 1]} tulle {shlex.join(words)}\n"
        f"tulle verify {shlex.quote(again)}\n"
        f"cmp {shlex.quote(made)} {shlex.quote(again)}\n"
        'echo "the same bytes"\n'
    )


def _order(point: Point) -> tuple[Any, ...]:
    spec = point.spec
    return (spec.round == "whole", spec.is_release, not spec.by_class, spec.method, spec.share or 0,
            spec.k or 0)  # fmt: skip


def _digest(decided: Any) -> str:
    return hashlib.sha256(json.dumps(decided, default=str).encode()).hexdigest()[:10]


def found_in(root: Path, identity: str) -> Study | None:
    """Return the table, or the other file, that an address means."""
    known = [*files(root), *studies(root), Study(root, SITES)]
    return next((study for study in known if study.id == identity), None)


def all_releases(root: Path) -> Iterator[tuple[Study, Release]]:
    """Yield the releases of all tables of a folder."""
    for study in studies(root):
        for release in study.releases():
            yield study, release
