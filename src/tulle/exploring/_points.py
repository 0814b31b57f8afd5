"""Points of the frontier: a release (or a reference that gives the scale), attacked and used.

As files they are written whole, found again, never measured twice. The name of a point's file holds
a digest of the data, of everything that decides what is measured, and of the version. A run that
was stopped goes on with the points that are missing; a table that has changed starts over.
"""

from __future__ import annotations

import hashlib
import io
import json
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl

from tulle import __version__
from tulle._attacks.result import AttackFigures
from tulle._files import atomic_write
from tulle._json import plain
from tulle._report.model import Changes, Gate, Verdict
from tulle._types import FilePath, Ints
from tulle.auditing._database import ComparedPeople, compared_rows
from tulle.auditing._fitness import cluster_metrics
from tulle.auditing._gates import gate_rows
from tulle.auditing._learning import utility
from tulle.auditing._pictures import group_section
from tulle.auditing._tables import Aligned, align_made
from tulle.auditing.audit import Audit, audit_people, audited
from tulle.condense.class_condenser import ClassCondenser
from tulle.condense.condenser import Condenser
from tulle.errors import DataError, PrivacyError, PrivacyWarning, TulleError
from tulle.table._series import is_class
from tulle.table.schema import Column, Role
from tulle.table.split import units_of

SHARES = (0.01, 0.05, 0.1, 0.4)  # of the people, in subsamples that give the scale
_ROWS_EACH = 5  # of a sampled person, on average: more would not be quick
Round = Literal["quick", "whole"]


@dataclass(frozen=True)
class Spec:
    """What a point is about: a release with its method and k, or a reference."""

    round: Round
    method: str  # "shape", "uniform", ...; or "copy", "shuffled", "subsample"
    by_class: bool = False
    k: int | None = None  # of a release
    share: float | None = None  # of a subsample

    @property
    def is_release(self) -> bool:
        """Whether it is a release, and no reference."""
        return self.k is not None

    @property
    def curve(self) -> str:
        """The name of the curve that a release is on."""
        return f"{self.method}, class by class" if self.by_class else self.method

    @property
    def label(self) -> str:
        """What a person reads."""
        if self.k is not None:
            return f"k = {self.k}, {self.curve}"
        if self.share is not None:
            return f"{100 * self.share:g} % of the people"
        return "the records themselves" if self.method == "copy" else "columns shuffled"


@dataclass(frozen=True)
class People:
    """Who is in the data and who was kept out, and what is known of the columns."""

    members: pl.DataFrame
    control: pl.DataFrame
    columns: tuple[Column, ...]

    @property
    def target(self) -> str | None:
        """The column that a miner predicts."""
        found = [c.name for c in self.columns if c.role is Role.TARGET]
        return found[0] if found else None

    @property
    def has_classes(self) -> bool:
        """Whether the target names classes."""
        found = [c for c in self.columns if c.role is Role.TARGET]
        return bool(found) and is_class(self.members[found[0].name], found[0].kind)

    @property
    def person(self) -> str | None:
        """The column that says whose row it is, where people have several."""
        return next((c.name for c in self.columns if c.role is Role.PERSON), None)

    @property
    def count(self) -> int:
        """How many people are in the data."""
        return len(np.unique(units_of(self.members, self.person)))

    def sample(self, members: int, control: int, rng: np.random.Generator) -> People:
        """Draw some of both, with all their rows; fewer of people who have very many."""
        parts = []
        for table, most in ((self.members, members), (self.control, control)):
            whole = len(np.unique(units_of(table, self.person)))
            most = min(most, _ROWS_EACH * most * whole // max(1, table.height))
            parts.append(table if whole <= most else table[self.drawn(table, most, rng)])
        return replace(self, members=parts[0], control=parts[1])

    def drawn(self, table: pl.DataFrame, count: int, rng: np.random.Generator) -> Ints:
        """Return the rows of some people of a table."""
        _, units = np.unique(units_of(table, self.person), return_inverse=True)
        people = rng.permutation(units.max(initial=-1) + 1)[: max(1, count)]
        return np.flatnonzero(np.isin(units, people))


@dataclass(frozen=True)
class PointSettings:
    """How points are measured: the same for all of a frontier."""

    seed: int
    task: str = "predict"
    scoring: str | None = None
    attempts: int | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    k: int = 10  # the least number of records behind an aggregate in pictures


@dataclass(frozen=True)
class Point:
    """What one release gives and costs, as plain words and numbers.

    ``risk`` is the worst excess over the control among all attacks, ``risk_low`` and ``risk_high``
    the ends of its 95 % interval. ``error`` says why there is no release.
    """

    id: str
    spec: Spec
    records: int
    released: int = 0
    risk: float | None = None
    risk_low: float | None = None
    risk_high: float | None = None
    attack: str = ""
    utility: float | None = None
    scoring: str = ""
    metrics: dict[str, float] = field(default_factory=dict, repr=False)
    attacks: dict[str, AttackFigures] = field(default_factory=dict, repr=False)
    verdict: Verdict | None = field(default=None, repr=False)
    gates: list[Gate] = field(default_factory=list, repr=False)
    seconds: float = 0.0
    error: str = ""
    # of whole points, for a report of their own
    audit: dict[str, Any] | None = field(default=None, repr=False)

    @property
    def level(self) -> str:
        """The level of the verdict on privacy; bad if a gate fails, none without a release."""
        if self.verdict is None:
            return "none"
        return self.verdict["privacy"]["level"]

    def to_dict(self) -> dict[str, Any]:
        """Return plain words and numbers."""
        return asdict(self)

    @classmethod
    def from_dict(cls, known: Mapping[str, Any]) -> Point:
        """Return the point that :meth:`to_dict` described."""
        return cls(**{**known, "spec": Spec(**known["spec"])})


def planned(
    round: Round, sizes: Sequence[int], curves: Sequence[tuple[str, bool]], people: int
) -> Iterator[Spec]:
    """List the points of a round: references first, then each curve over k."""
    yield Spec(round, "copy")
    yield Spec(round, "shuffled")
    for share in SHARES:
        if share * people >= 1:
            yield Spec(round, "subsample", share=share)
    for method, by_class in curves:
        for k in sizes:
            if k <= people:
                yield Spec(round, method, by_class, k)


def measured(name: str, spec: Spec, people: People, settings: PointSettings) -> Point:
    """Make a release, attack it and use it."""
    start = time.process_time()
    made = Point(name, spec, people.members.height)
    try:
        release, known = _released(spec, people, settings.seed)
    except (DataError, PrivacyError) as error:
        return replace(made, error=str(error), seconds=time.process_time() - start)
    columns = people.columns
    if is_quick(spec):  # the model that the axis needs will do
        columns = tuple(
            replace(c, role=Role.QUASI) if c.role is Role.TARGET else c for c in columns
        )
    tables = align_made(people.members, release, people.control, columns)
    rng = np.random.default_rng(settings.seed)
    whole = compared_rows((people.members, release, people.control), columns)
    if settings.task == "clusters":  # too few different records to be clustered part nobody
        clusters = cluster_metrics(tables, rng)
        used = clusters.get("cluster_agreement", 0.0), "clusters"
    else:
        clusters, used = {}, utility(tables, people.target, settings.scoring, rng)
    made = replace(made, released=release.height, metrics=clusters)
    point = judged(made, whole or tables, used, settings, known)
    return replace(point, seconds=time.process_time() - start)


def is_quick(spec: Spec) -> bool:
    """Return whether a point needs no report of its own."""
    return spec.round == "quick" or not spec.is_release


def judged(
    made: Point,
    tables: Aligned | ComparedPeople,
    used: tuple[float, str],
    settings: PointSettings,
    known: Changes,
) -> Point:
    """Attack what was made, and return the point; ``used`` is its utility, and what that is."""
    spec, quick = made.spec, is_quick(made.spec)
    asked: dict[str, Any] = {"k": settings.k, "attempts": settings.attempts, "quick": quick}
    asked["title"] = f"Release with {spec.label}"
    if isinstance(tables, Aligned):
        found = audited(tables, settings.seed, **asked)
    else:
        found = audit_people(tables, settings.seed, **asked)
    gated: Changes = {**known, "gates": gate_rows(found.result, _limits(spec, settings))}
    found = found.extended(**gated)
    return replace(
        made,
        **worst(found.result["attacks"]),
        utility=used[0],
        scoring=used[1],
        metrics={**found.result["metrics"], **made.metrics},
        attacks=found.result["attacks"],
        verdict=found.verdict,
        gates=found.result["gates"],
        audit=None if quick else dict(found.result),
    )


def _limits(spec: Spec, settings: PointSettings) -> dict[str, float]:
    """Return the gates of a point: none for references, and what a quick audit measures."""
    if not spec.is_release:
        return {}
    left_out = ("min_accuracy_ratio", "max_homogeneity") if spec.round == "quick" else ()
    return {name: limit for name, limit in settings.limits.items() if name not in left_out}


def worst(attacks: Mapping[str, AttackFigures]) -> dict[str, Any]:
    """Return the attack with the largest excess, as a point names it."""
    if not attacks:
        return {}
    name = max(attacks, key=lambda key: attacks[key]["risk"])
    risks = {key: attacks[name][key] for key in ("risk", "risk_low", "risk_high")}
    return {**risks, "attack": name}


def audit_of(point: Point) -> Audit:
    """Return the audit of a whole point, for a report of its own."""
    if point.audit is None:
        raise TulleError(f"{point.spec.label} was measured quickly: there is no report of it")
    return Audit(point.audit)  # type: ignore[arg-type]


def _released(spec: Spec, people: People, seed: int) -> tuple[pl.DataFrame, Changes]:
    """Make the release, or the reference in its place, with what only its maker knows."""
    members = people.members.select(
        column.name
        for column in people.columns
        if column.role.released or column.role is Role.PERSON
    )
    rng = np.random.default_rng(seed)
    if spec.method == "copy":
        return members, {}
    if spec.method == "shuffled":
        drawn = (pl.col(name).gather(rng.permutation(members.height)) for name in members.columns)
        return members.select(drawn), {}
    if spec.share is not None:
        return members[people.drawn(people.members, round(spec.share * people.count), rng)], {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # a point is tried, nothing is released yet
        return _condensed(spec, people, seed)


def _condensed(spec: Spec, people: People, seed: int) -> tuple[pl.DataFrame, Changes]:
    # whoever only looks at points need not wait for scikit-learn
    by_class = people.target if spec.by_class else None
    template = Condenser(
        spec.k or 2,
        synthesis=spec.method,
        columns=[column for column in people.columns if column.name != by_class],
        random_state=seed,
    )
    if by_class is None:
        return template.fit_resample(people.members), _groups_of(template, people)
    condenser = ClassCondenser(template, k=spec.k, random_state=seed)
    columns, classes = condenser.fit_resample(
        people.members.drop(by_class), people.members[by_class]
    )
    return columns.with_columns(pl.Series(by_class, classes)), _groups_of(condenser, people)


def _groups_of(condenser: Condenser | ClassCondenser, people: People) -> Changes:
    levelled = any(column.role is Role.LEVEL for column in people.columns)
    text = condenser._synthesis.sentence(sizes=not levelled)
    return {
        "smallest_group": min(condenser.rests_on_.values()),
        "sections": [group_section(condenser.counts_, condenser.levels_, text)],
        "limits": condenser._synthesis.limits(),
    }


FORMAT = 1  # of the files; files in another one are measured again
_PRIVATE = 0o600  # a point tells about the original


def data_digest(tables: Iterable[pl.DataFrame], columns: Any) -> str:
    """Return a digest of the people and of what is known of their columns."""
    running = hashlib.sha256()
    for table in tables:
        file = io.BytesIO()
        table.rechunk().write_ipc(file, compression="uncompressed")
        running.update(file.getbuffer())
    running.update(repr(columns).encode())
    return running.hexdigest()


def point_name(spec: Spec, settings: PointSettings, data: str) -> str:
    """Return the name of a point: what it is, and a digest of all that decides it."""
    decided = [asdict(spec), asdict(settings), data, FORMAT, __version__]
    text = json.dumps(plain(decided), sort_keys=True)
    what = f"k{spec.k}" if spec.is_release else f"{100 * (spec.share or 1):g}"
    method = f"{spec.method}{'-by-class' if spec.by_class else ''}"
    return f"{spec.round}-{method}-{what}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


class Folder:
    """The folder of an exploration, or none: then points are kept in memory only."""

    def __init__(self, path: FilePath | None) -> None:
        self.path = None if path is None else Path(path)
        if self.path is None:
            return
        if self.path.exists() and not self.path.is_dir():
            raise DataError(f"{self.path} is a file: name a folder for the points")
        try:
            (self.path / "points").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise DataError(f"the folder {self.path} cannot be made: {reason}") from None

    def point(self, name: str) -> Point | None:
        """Return a point that was measured before; a file that cannot be read does not count."""
        if self.path is None:
            return None
        return _read(self.path / "points" / f"{name}.json")

    def keep(self, point: Point) -> None:
        """Write a point, whole or not at all."""
        if self.path is not None:
            self.write(f"points/{point.id}.json", json.dumps(plain(point.to_dict())))

    def write(self, name: str, text: str) -> None:
        """Write a file of the folder, whole or not at all."""
        if self.path is not None:
            with atomic_write(self.path / name, force=True, mode=_PRIVATE) as file:
                file.write(text.encode())

    def settings(self) -> dict[str, Any]:
        """Return what an earlier run decided: the seed."""
        if self.path is None:
            return {}
        try:
            known = json.loads((self.path / "settings.json").read_text())
        except (OSError, ValueError):
            return {}
        return known if isinstance(known, dict) else {}


def points_in(path: FilePath) -> Iterator[Point]:
    """Yield the points of a folder, also while another process is still measuring."""
    for file in sorted((Path(path) / "points").glob("*.json")):
        found = _read(file)
        if found is not None:
            yield found


def _read(file: Path) -> Point | None:
    try:
        return Point.from_dict(json.loads(file.read_text()))
    except (OSError, ValueError, TypeError, KeyError):
        return None
