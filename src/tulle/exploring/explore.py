"""Explore: what releases of different k give and cost, and the smallest k that passes.

First a quick round on a sample, then the whole table. Each point is measured once, kept as a file,
and handed on as soon as it is there: whoever stops the work keeps what was found.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from tulle._checks import check_choice, check_int
from tulle._choices import SYNTHESES, TASKS
from tulle._json import plain
from tulle._progress import bar
from tulle._random import RandomState
from tulle._report import render
from tulle._report.render import framed
from tulle._types import FilePath
from tulle.auditing._gates import check_limits
from tulle.auditing.audit import Audit
from tulle.errors import DataError, ParameterError, nearest_name
from tulle.exploring._choice import Choice, Scale, choose, latest, scaled
from tulle.exploring._page import page_of
from tulle.exploring._points import (
    Folder,
    People,
    Point,
    PointSettings,
    Spec,
    audit_of,
    data_digest,
    measured,
    planned,
    point_name,
)
from tulle.guessing.columns import infer_columns
from tulle.table._frames import enter
from tulle.table.schema import Column, Role, Schema
from tulle.table.split import split_rows

SIZES = (3, 5, 10, 20, 50, 100)
METHODS = ("shape", "uniform")
_QUICK, _QUICK_CONTROL = 1_200, 800  # people of the quick round
_QUICK_ATTEMPTS, _QUICK_SIZES = 300, 4
_APART, _MOST_APART = 800, 0.3  # people, and share of a small table
Progress = Callable[[Point, int, int], None]


@dataclass(frozen=True)
class Exploration:
    """Hold the points of a frontier and the one that is named; :func:`tulle.explore` makes it.

    Parameters
    ----------
    points : list of points
        In the order in which they were measured: references and releases of each round.
    title : str
        The title of the page.
    command : str
        How it was made, for the page.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from tulle import explore
    >>> rng = np.random.default_rng(0)
    >>> people = pl.DataFrame(rng.normal(size=(400, 3)), schema=["x", "y", "z"])
    >>> found = explore(people, k=[5, 20], methods=["shape"], random_state=0)
    >>> [row["k"] for row in found.rows() if row["k"]]
    [5, 20]
    """

    points: list[Point]
    title: str = "Which release?"
    command: str = ""

    @property
    def choice(self) -> Choice:
        """The point that is named, with the reason and what to do next."""
        return choose(self.latest)

    @property
    def latest(self) -> list[Point]:
        """The points of the last round that has releases."""
        return latest(self.points)

    @property
    def k(self) -> int | None:
        """The smallest k that passes all gates; None if none does."""
        point = self.choice.point
        return None if point is None else point.spec.k

    def scale(self, point: Point) -> Scale:
        """Return what share of the records a point is as useful and as risky as.

        Parameters
        ----------
        point
            One of the points.

        Returns
        -------
        Scale
        """
        return scaled(point, self.points)

    def audit(self, k: int, method: str | None = None) -> Audit:
        """Return the whole audit of one release.

        Parameters
        ----------
        k : int
            Its group size.
        method : str, optional
            Its curve, such as "shape" or "shape, class by class"; the first one otherwise.

        Returns
        -------
        Audit
        """
        for point in self.points:
            wanted = method is None or point.spec.curve == method
            if point.spec.k == k and wanted and point.audit is not None:
                return audit_of(point)
        raise ParameterError(f"There is no whole release with k = {k} among the points.")

    def rows(self) -> list[dict[str, Any]]:
        """Return the points of the last round as rows of a table.

        Returns
        -------
        list of dict
        """
        named = self.choice.point
        return [_row(point, self.scale(point), point is named) for point in self.latest]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain words and numbers, without the audits.

        Returns
        -------
        dict
        """
        choice = self.choice
        return {
            "chosen_k": self.k,
            "chosen": None if choice.point is None else choice.point.id,
            "level": choice.level,
            "reason": choice.reason,
            "next": choice.next,
            "points": [
                {**replace(point, audit=None).to_dict(), **_row(point, self.scale(point), False)}
                for point in self.points
            ],
        }

    def html(self) -> str:
        """Render one self-contained page with the clickable frontier.

        Returns
        -------
        str
        """
        return render(page_of(self))

    def _repr_html_(self) -> str:
        return framed(self.html())

    def __repr__(self) -> str:
        return f"Exploration({len(self.points)} points: {self.choice.reason})"


def explore(
    table: Any,
    folder: FilePath | None = None,
    *,
    control: Any = None,
    holdout: float | str | None = None,
    target: str | None = None,
    columns: Any = None,
    k: Sequence[int] = SIZES,
    methods: Sequence[str] = METHODS,
    task: str = "predict",
    scoring: str | None = None,
    gates: Mapping[str, float] | None = None,
    attempts: int | None = None,
    rounds: Sequence[str] = ("quick", "whole"),
    random_state: int | None = None,
    command: str = "",
    progress: Progress | None = None,
) -> Exploration:
    """Measure releases of different k, and name the smallest k that passes all gates.

    Each release is attacked as :func:`tulle.audit` does it, with people who were kept out, and
    used by a model. The records themselves, their columns shuffled and subsamples of 1, 5, 10 and
    40 % give the scale.

    Parameters
    ----------
    table : DataFrame (pandas, polars), pyarrow Table, array or list of rows
        The people.
    folder : path-like, optional
        Where points are kept as files, each as soon as it is measured, with the page
        ``explore.html`` and ``explore.json``. A run that was stopped goes on from there.
    control : table, optional
        People who are not in ``table``; otherwise ``holdout`` of them are kept out.
    holdout : float or str, optional
        The share of the people to keep out: a tenth, and up to three tenths of a small table, in
        which a tenth would be too few to decide anything.
    target : str, optional
        The column that a miner predicts. Without it, each column is predicted from the others.
    columns : sequence of Column, mapping or Schema, optional
        Kinds and roles of the columns; guessed unless given.
    k : sequence of int
        The group sizes.
    methods : sequence of {"shape", "uniform", "normal", "mean"}
        How records are drawn. Where the target names classes, the first method is tried with
        classes condensed apart and together, the others apart.
    task : {"predict", "clusters"}
        What a release is used for, the axis of utility. "predict": a model of the target. With
        "clusters" five clusters are found in the release and in the original, and utility is how
        well they agree on the original's people (adjusted Rand index: 1 the same, 0 chance); how
        much farther people are from the release's centres is measured too.
    scoring : str, optional
        A scorer of scikit-learn for the target. By default the area under the ROC curve for two
        classes, balanced accuracy for more, R2 for numbers.
    gates : mapping, optional
        Limits as those of ``tulle audit``: ``{"max_linkage": 0.05}``. Without gates a release
        passes if its verdict on privacy is not bad.
    attempts : int, optional
        People whom each attack is tried on; 1,000 or fewer by default.
    rounds : sequence of {"quick", "whole"}
        The quick round takes a sample; it is left out where the table is small.
    random_state : int, optional
        The seed. Without it, the seed of an earlier run in ``folder``, else a random one.
    command : str
        What the page says about how it was made.
    progress : callable, optional
        Called with each point, the number of points that are done, and their total. What it
        raises ends the work; the points are kept.

    Returns
    -------
    Exploration

    Raises
    ------
    DataError
        If the table or the control is too small.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> rng = np.random.default_rng(0)
    >>> people = pl.DataFrame(rng.normal(size=(500, 3)), schema=["x", "y", "z"])
    >>> found = explore(people, k=[3, 30], methods=["shape"], random_state=0)
    >>> found.points[0].spec.label, found.points[0].level
    ('the records themselves', 'bad')
    """
    check_choice("explore", "task", task, TASKS)
    _check_scoring(scoring, task)
    _check(k, methods, rounds, gates)
    place = Folder(folder)
    seed = settled_seed(random_state, place)
    people = _people(table, control, holdout, target, columns, seed)
    limits = {name: float(limit) for name, limit in (gates or {}).items()}
    settings = PointSettings(seed, task, scoring, attempts, limits)
    work = [
        (spec, name, partial(measured, name, spec, some, how))
        for spec, some, how, name in _work(people, settings, k, methods, rounds)
    ]
    return explored(work, place, command, progress)


def explored(
    work: Sequence[tuple[Spec, str, Callable[[], Point]]],
    place: Folder,
    command: str,
    progress: Progress | None,
) -> Exploration:
    """Measure each point that the folder does not have, by its name, and write the page."""
    found = Exploration([], command=command)
    try:
        with bar("releases", len(work)) as advance:
            for done, (spec, name, measure) in enumerate(work, 1):
                point = place.point(name)
                if point is None:
                    point = measure()
                    place.keep(point)
                found.points.append(point)
                advance(1, note=spec.label)
                if progress is not None:
                    progress(point, done, len(work))
    finally:  # also if somebody stopped it
        if found.points and place.path is not None:
            place.write("explore.json", json.dumps(plain(found.to_dict())))
            place.write("explore.html", found.html())
    return found


def _check_scoring(scoring: str | None, task: str) -> None:
    """Refuse a name that scikit-learn has no scorer for, and one that nothing would use."""
    from sklearn.metrics import get_scorer_names

    if scoring is not None and task == "clusters":
        raise ParameterError(
            "The 'scoring' parameter of explore is for task='predict': clusters are scored by how "
            "well they agree.",
            parameter="scoring",
        )
    if scoring is not None and scoring not in get_scorer_names():
        raise ParameterError(
            f"The 'scoring' parameter of explore is one of scikit-learn's scorers, such as "
            f"'balanced_accuracy', 'roc_auc' or 'r2'. Got '{scoring}'.",
            parameter="scoring",
        )


def _work(
    people: People,
    settings: PointSettings,
    k: Sequence[int],
    methods: Sequence[str],
    rounds: Sequence[str],
) -> list[tuple[Spec, People, PointSettings, str]]:
    """List what is to be measured: the point, on whom, how, and its name."""
    classes = people.has_classes
    curves = [(method, classes) for method in methods]
    if classes:
        curves.insert(1, (methods[0], False))
    sizes = sorted(set(k))
    small = people.count <= 2 * _QUICK
    work = []
    if "quick" in rounds and not (small and "whole" in rounds):
        rng = np.random.default_rng(settings.seed)
        some = people.sample(_QUICK, _QUICK_CONTROL, rng)
        how = replace(settings, attempts=settings.attempts or _QUICK_ATTEMPTS)
        digest = data_digest((some.members, some.control), some.columns)
        few = sizes if len(sizes) <= _QUICK_SIZES else sorted({*sizes[::2], sizes[-1]})
        specs = planned("quick", few, curves[:1], some.count)
        work += [(spec, some, how, point_name(spec, how, digest)) for spec in specs]
    if "whole" in rounds:
        digest = data_digest((people.members, people.control), people.columns)
        specs = planned("whole", sizes, curves, people.count)
        work += [(spec, people, settings, point_name(spec, settings, digest)) for spec in specs]
    return work


def _check(
    k: Sequence[int],
    methods: Sequence[str],
    rounds: Sequence[str],
    gates: Mapping[str, float] | None,
) -> None:
    if isinstance(k, int) or not len(k):
        raise ParameterError("needs a list of group sizes: [5, 10, 20].", parameter="k",
                             subject="The 'k' parameter of explore")  # fmt: skip
    for size in k:
        check_int("explore", "k", size, 2)
    if isinstance(methods, str) or not len(methods):
        raise ParameterError("needs a list of methods: ['shape'].", parameter="methods",
                             subject="The 'methods' parameter of explore")  # fmt: skip
    for method in methods:
        check_choice("explore", "methods", method, SYNTHESES)
    for name in rounds:
        check_choice("explore", "rounds", name, ("quick", "whole"))
    check_limits(gates or {}, control=True, earlier=False, worst_case=False)


def settled_seed(given: RandomState, place: Folder) -> int:
    """Return the seed: the given one, that of an earlier run in the folder, or a random one."""
    if given is not None:
        seed = check_int("explore", "random_state", given, 0)
    else:
        known = place.settings().get("seed")
        seed = known if isinstance(known, int) else secrets.randbits(32)
    place.write("settings.json", json.dumps({"seed": seed}))
    return seed


def _people(
    table: Any,
    control: Any,
    holdout: float | str | None,
    target: str | None,
    columns: Any,
    seed: int,
) -> People:
    """Open the tables, settle the roles, and keep some people out."""
    frame, _ = enter(table)
    known = _columns(frame, target, columns)
    if any(column.role is Role.LEVEL for column in known):
        raise ParameterError(
            "A column of levels says how large groups are, so that there is no k to find: give it "
            "the role 'ignored'."
        )
    if control is not None:
        outside, _ = enter(control)
        lacking = [name for name in frame.columns if name not in outside.columns]
        if lacking:
            raise DataError(
                f"the control lacks {len(lacking)} column(s) that the table has, such as "
                f"'{lacking[0]}'"
            )
        return People(frame, outside.select(frame.columns), known)
    whole = People(frame, frame.clear(), known)
    share = share_apart(whole.count) if holdout is None else holdout
    rows = split_rows(frame, share, person=whole.person, target=whole.target, random_state=seed)
    return replace(whole, members=frame[rows.members], control=frame[rows.control])


def share_apart(people: int) -> float:
    """Return the share of so many people to keep out."""
    return min(_MOST_APART, max(0.1, _APART / max(1, people)))


def _columns(frame: pl.DataFrame, target: str | None, columns: Any) -> tuple[Column, ...]:
    if columns is None:
        guessed = infer_columns(frame)
        found = [
            replace(c, role=Role.QUASI) if c.role in (Role.TARGET, Role.LEVEL) else c
            for c in guessed
        ]
    else:
        found = list(Schema(columns))
    names = [column.name for column in found]
    if target is None:
        return tuple(found)
    if target not in names:
        raise ParameterError(
            f"is not a column of the table: {nearest_name(target, names)}",
            parameter="target",
            subject="The 'target' parameter of explore",
        )
    return tuple(replace(c, role=Role.TARGET) if c.name == target else c for c in found)


def _row(point: Point, scale: Scale, named: bool) -> dict[str, Any]:
    spec = point.spec
    return {
        "release": spec.label,
        "k": spec.k,
        "risk": point.risk,
        "risk_low": point.risk_low,
        "risk_high": point.risk_high,
        "worst_attack": point.attack or None,
        "utility": point.utility,
        "scoring": point.scoring or None,
        "k_marginal": point.metrics.get("k_marginal"),
        "distinguishability": point.metrics.get("propensity_auc"),
        "cluster_error": point.metrics.get("cluster_error"),
        "as_useful_as": scale.useful if spec.is_release else None,
        "as_risky_as": scale.risky if spec.is_release else None,
        "privacy": point.level if spec.is_release else None,
        "use": point.verdict["use"]["level"] if spec.is_release and point.verdict else None,
        "chosen": named,
        "error": point.error or None,
    }
