"""The audit of a table: every measure and attack that (original, release, control) allow.

Attempts are sampled where there are many records, the attacked data never. Each
measure has its own generator, so that leaving one out does not change another.
"""

from __future__ import annotations

import copy
import math
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import polars as pl

from tulle import _report as report
from tulle._attacks.result import AttackFigures, AttackResult
from tulle._checks import check_int
from tulle._plurals import counted
from tulle._progress import bar
from tulle._random import RandomState, as_generator, spawn
from tulle._report.model import Changes, Result, Section, Verdict, completed
from tulle._report.render import framed
from tulle._report.verdict import verdict
from tulle.auditing import _measures as measures
from tulle.auditing._attackers import MOST_SECRETS_QUICKLY, attackers_of, knowledge, planned
from tulle.auditing._database import (
    OF_HISTORIES,
    ComparedPeople,
    compared_databases,
    compared_rows,
    derived_traits,
    nearer_members,
    planned_on_rows,
)
from tulle.auditing._fitness import by_chance, fitness, whole_cells
from tulle.auditing._learning import mining
from tulle.auditing._measures import stated_rules
from tulle.auditing._people import breaches, in_register, section_of_people, uniques
from tulle.auditing._pictures import column_section, extreme_section, structure_section
from tulle.auditing._tables import Aligned, align, entries_of, opened, refuse_true_keys
from tulle.auditing._worst_case import FITS, worst_cases
from tulle.database.database import Database
from tulle.errors import ParameterError, nearest_name
from tulle.table.policy import Policy, load_policy
from tulle.table.schema import Role, Schema

# The result of an audit: figures that can be read, shown, written and gated.


@dataclass(frozen=True, repr=False)
class Audit:
    """Hold what an audit found; :func:`tulle.audit` makes it.

    Parameters
    ----------
    result : mapping
        The findings as plain words and numbers.

    What may leave
    --------------
    ``html(edition="public")``, ``json("public")`` and ``markdown("public")`` hold aggregates of
    at least ``k`` records only. The owner's edition and ``to_dict()`` are for the owner.

    Examples
    --------
    >>> import numpy as np
    >>> from tulle import audit
    >>> rng = np.random.default_rng(0)
    >>> report = audit(rng.normal(size=(200, 3)), rng.normal(size=(200, 3)), random_state=0)
    >>> report.verdict["privacy"]["level"]
    'good'
    >>> report.html().startswith("<!doctype html>")
    True
    """

    result: Result

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain words and numbers, including the verdict.

        Returns
        -------
        dict
        """
        whole = completed(copy.deepcopy(self.result))
        return {**whole, "verdict": verdict(whole)}

    @property
    def verdict(self) -> Verdict:
        """The judgements on ``privacy`` and ``use``.

        Each has a ``level`` (good, caution, bad, undecided), a ``reason``, what to do ``next``,
        and ``details``.
        """
        return verdict(completed(self.result))

    def html(self, edition: str = "owner") -> str:
        """Render one self-contained page.

        Parameters
        ----------
        edition : {"owner", "public"}
            For whom.

        Returns
        -------
        str
        """
        return report.render(self.result, edition)

    def json(self, edition: str = "owner") -> str:
        """Render the report as JSON.

        Parameters
        ----------
        edition : {"owner", "public"}
            For whom.

        Returns
        -------
        str
        """
        return report.to_json(self.result, edition)

    def markdown(self, edition: str = "owner") -> str:
        """Render the report as Markdown.

        Parameters
        ----------
        edition : {"owner", "public"}
            For whom.

        Returns
        -------
        str
        """
        return report.markdown(self.result, edition)

    def save(
        self, path: str | os.PathLike[str], *, edition: str = "owner", force: bool = False
    ) -> Path:
        """Write the report, whole or not at all.

        Parameters
        ----------
        path : path-like
            Ends in ``.html``, ``.json`` or ``.md``.
        edition : {"owner", "public"}
            For whom.
        force : bool
            Replace a file that exists.

        Returns
        -------
        pathlib.Path
        """
        return report.save(self.result, path, edition=edition, force=force)

    def extended(self, **parts: Unpack[Changes]) -> Audit:
        """Return a copy with further parts: title, guarantee, k, command, gates, ...

        Parameters
        ----------
        **parts
            Metrics, attacks and provenance are merged, sections and limits come first, and
            everything else is replaced.

        Returns
        -------
        Audit
        """
        whole = completed(copy.deepcopy(self.result))
        joined: Changes = {
            "metrics": {**whole["metrics"], **parts.get("metrics", {})},
            "attacks": {**whole["attacks"], **parts.get("attacks", {})},
            "provenance": {**whole["provenance"], **parts.get("provenance", {})},
            "sections": [*parts.get("sections", []), *whole["sections"]],
            "limits": [*parts.get("limits", []), *whole["limits"]],
        }
        return Audit({**whole, **parts, **joined})

    def _repr_html_(self) -> str:
        return framed(self.html())

    def __repr__(self) -> str:
        found = self.verdict
        return f"Audit(privacy={found['privacy']['level']}, use={found['use']['level']})"


_MOST, _FEWEST, _LARGE = 1000, 200, 40_000  # attempts, and the records from which they fall
_OF_EACH_COLUMN = (  # measures from which that of a single column could be had
    *("marginal_distance", "marginal_distance_max"),
    *("correlation_difference", "correlation_difference_max"),
)
_OF_FEW = ("subgroup_distance_max", "nearer_excess_apart")  # about a small part of the people
_MOST_SECRETS = 20  # columns that are inferred when no role says which are sensitive
LIMITS = (
    "Attackers who know more than is assumed here: other columns, another release of the same "
    "people, or help from someone who made it.",
    "Facts about groups: what is true of most people like a given person can be learnt from any "
    "useful release, whether that person is in it or not.",
    "A failed attack is not evidence of safety: a better attack may succeed.",
)


def audit(
    original: Any,
    release: Any,
    control: Any = None,
    policy: Any = None,
    random_state: RandomState = None,
    *,
    target: str | None = None,
    sensitive: Sequence[str] | None = None,
    known: Any = None,
    estimator: Any = None,
    earlier: Any = None,
    worst_case: Any = None,
    k: int = 10,
    attempts: int | None = None,
    title: str = "Audit of a release",
) -> Audit:
    """Measure what a release loses and what it reveals about people.

    Parameters
    ----------
    original, release, control
        Tables of any kind with the same columns, in any order. The control are records like the
        original's that were kept out of the release: without it attacks are compared with
        guessing only, and membership is not tried. Of a :class:`Database`, the release is a
        mapping of tables, and so is the control (or a Database).
    policy
        Roles of the columns. Identifiers, levels and ignored columns are left out; intruders know
        the quasi-identifiers; sensitive columns and the target are inferred. Without roles,
        intruders know everything and each column is inferred in turn. With a column of the role
        person, attacks count people: each is tried once, and nobody's own records hide them. If
        the release has that column, too, people are compared, by their rows together.
    random_state
        Draws the attempts; the same seed gives the same figures.
    target
        The column that a miner wants to predict; the policy's, unless given.
    sensitive
        The columns that are inferred; those of the policy, unless given.
    known
        A table that an intruder may hold, such as a public register: its people are looked up in
        the release by the columns that it shares with the original.
    estimator
        Any scikit-learn estimator to train on release and original; gradient boosting by default.
    earlier
        Another release of much the same people, made before, or a tuple of several: what they tell
        together.
    worst_case
        The condenser that made the release, or a function from a table and a seed to a release:
        40 releases (or ``attempts``, if fewer) of up to 400 records are made with an outlier, with
        an ordinary person, and with neither of them. Slow, and not a bound.
    k
        The least number of records behind an aggregate in pictures and in the public edition.
    attempts
        How many people each attack is tried on, if there are more; 1,000 unless said, fewer (but
        200 at least) for tables of more than 40,000 records. All records of original, release
        and control are always searched.
    title
        The title of the report.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> people = rng.normal(size=(300, 3))
    >>> leak = audit(people[:200], people[:200], control=people[200:], random_state=0)
    >>> leak.verdict["privacy"]["level"], leak.to_dict()["attacks"]["linkage"]["rate"]
    ('bad', 1.0)

    Returns
    -------
    Audit
        Measures, attacks, a verdict, and the report in several formats.
    """
    _check_parameters(k, attempts, estimator)
    if isinstance(policy, str | os.PathLike):
        policy = load_policy(policy)
    seed, generator = seeded(random_state)
    of_rows = (sensitive, known, estimator, earlier)
    people = None
    if all(one is None for one in of_rows):
        people = _people(original, release, control, policy)
    asked: dict[str, Any] = {"target": target, "k": k, "attempts": attempts, "title": title}
    if people is not None:
        found = audit_people(people, generator, **asked)
    else:
        asked |= {"sensitive": sensitive, "known": known, "estimator": estimator}
        found = audited(align(original, release, control, policy, earlier), generator, **asked)
    found = found.extended(provenance={"audit seed": seed})
    if isinstance(policy, Policy):
        found = found.extended(context=dict(policy.context))
        if not isinstance(original, Database):
            found = found.extended(**stated_rules(policy.rules or (), original, release))
    if worst_case is None:
        return found
    fits = FITS if attempts is None else min(FITS, attempts)
    results = worst_cases(original, worst_case, policy, spawn(generator, 1)[0], fits=fits)
    # about one person each: for nobody but the owner
    told: dict[str, AttackFigures] = {r.name: {**r.to_dict(), "owner_only": True} for r in results}
    return found.extended(attacks=told)


def _people(original: Any, release: Any, control: Any, policy: Any) -> ComparedPeople | None:
    """Return the people of the tables, if a column names them and the release has people, too."""
    if isinstance(original, Database):
        return compared_databases(original, release, control)
    entries = entries_of(policy)
    if not any(getattr(entry, "role", entry) is Role.PERSON for entry in entries.values()):
        return None
    given = zip(("original", "release", "control"), (original, release, control))
    tables = [None if table is None else opened(which, table) for which, table in given]
    order = policy.people.order if isinstance(policy, Policy) else ()
    columns = list(Schema.of(entries, tables[0]))  # type: ignore[arg-type]
    people = compared_rows(tables, columns, order)
    if people is not None and tables[0] is not None and tables[1] is not None:
        key = next(column.name for column in columns if column.role is Role.PERSON)
        refuse_true_keys(key, tables[0][key], tables[1][key])
    return people


@dataclass(frozen=True)
class AuditRequest:
    """What is asked of an audit, as in :func:`audit`; the last five are for commands.

    ``quick`` is for a verdict without a report: fewer attacks and no pictures. ``attacks`` are
    those that were tried already, on releases made in the same way; ``derived`` columns say more
    of what others say already, and ``rows`` are those that records sum up.
    """

    target: str | None = None
    sensitive: Sequence[str] | None = None
    known: Any = None
    estimator: Any = None
    k: int = 10
    attempts: int | None = None
    title: str = "Audit of a release"
    quick: bool = False
    attacks: Sequence[AttackResult] | None = None
    derived: Sequence[str] = ()
    rows: Sequence[Sequence[pl.DataFrame]] = ()


def audited(tables: Aligned, random_state: RandomState = None, **given: Any) -> Audit:
    """Audit tables that are aligned already, with an :class:`AuditRequest`."""
    asked = AuditRequest(**given)
    k, quick, attacks = asked.k, asked.quick, asked.attacks
    tried = _attempts(tables) if asked.attempts is None else asked.attempts
    target = target_of(tables, asked.target)
    hidden = secrets_of(tables, asked.sensitive, target, quick)
    seed, generator = seeded(random_state)

    listed = None if asked.known is None else in_register(tables, asked.known)
    attackers = attackers_of(tables, quick)
    if attacks is None:
        work = planned(tables, hidden, listed, tried, attackers, quick)
        attacks = _tried("attacks", list(work), generator)
    distances = measures.marginals(tables)
    found = measures.associations(tables)
    near, model, peers = spawn(generator, 3)
    nearness = {}
    if not quick:
        nearness = measures.nearness(tables, near, tried) | measures.peers(tables, peers, tried)
    far = measures.moved(tables, distances)
    metrics = {**measures.structure(tables, found), **measures.distance_metrics(far), **nearness}
    behind = dict.fromkeys(nearness, min(tried, *map(len, tables.present)))
    behind |= dict.fromkeys(_OF_EACH_COLUMN, min(found.behind_each.values()))
    if target is not None:
        scores, tested = mining(tables, target, asked.estimator, model)
        metrics |= scores
        behind |= dict.fromkeys(scores, tested)
    metrics = {name: value for name, value in metrics.items() if math.isfinite(value)}
    use, people, again = spawn(generator, 3)
    derived = asked.derived
    fit = fitness(tables, found, target, k, use, quick=quick, derived=derived, rows=asked.rows)
    metrics |= fit.metrics | measures.weighted(tables, k)
    chance = by_chance(tables, metrics, k, derived, again)
    at_risk: list[Section] = []
    if not quick:
        carriers = _carriers(attacks, hidden)
        cells, known = whole_cells(tables, fit.cells), tables.of_role(Role.QUASI, Role.WEIGHT)
        at_risk, excess = section_of_people(tables, cells, carriers, k, people, tried)
        metrics |= uniques(tables, cells, hidden, known) | excess
        metrics |= breaches(tables, cells, hidden, known)
        behind |= dict.fromkeys(_OF_FEW, 0)
    named = [result for result in attacks if result.name == "membership"]
    details = {name: value for result in named for name, value in result.details.items()}
    members = {n: value for n, value in details.items() if n.startswith("membership_")}
    return Audit(
        {
            **_head(tables, k, asked.title),
            "people": tables.original.n_people,
            "apart": 0 if tables.control is None else tables.control.n_people,
            "metrics": metrics | members,
            "chance": chance,
            "behind": behind
            | dict.fromkeys(members, min((one.attempts for one in named), default=0)),
            "attacks": {result.name: result.to_dict() for result in attacks},
            "sections": []
            if quick
            else [
                fit.section,
                *at_risk,
                column_section(tables, distances, found.behind_each, k),
                structure_section(tables, found, k),
                extreme_section(distances),
            ],
            "limits": list(LIMITS),
            "attackers": knowledge(attackers, tables),
            "where": measures.worst_places(far, found) | fit.where,
            "provenance": {
                "audit seed": seed,
                "attempts": f"at most {tried:,} people per attack; all records are searched",
                **fit.facts,
                **_left_out(tables, hidden, asked.sensitive),
            },
        }
    )


def audit_people(people: ComparedPeople, random_state: RandomState, **given: Any) -> Audit:
    """Audit a release of people by their traits and rows, with what is in the request."""
    asked = AuditRequest(**given)
    seed, generator = seeded(random_state)
    first, second, third = spawn(generator, 3)
    tables, traits = people.aligned(asked.quick)
    target = next((trait.name for trait in traits if asked.target == trait.column), asked.target)
    given |= {"target": target, "derived": derived_traits(traits), "rows": people.frames()}
    found = audited(tables, first, **given)
    results: list[AttackResult] = []
    if asked.attacks is None:
        on_rows = planned_on_rows(people, tables, traits, asked.attempts)
        results = _tried("histories", [("", attack) for attack in on_rows], second)
    return found.extended(
        summary=people.summary(),
        metrics=nearer_members(tables, third),
        attacks={result.name: result.to_dict() for result in results},
        limits=[OF_HISTORIES],
        provenance={"audit seed": seed, "compared": f"people, by {len(traits)} traits of each"},
    )


def attacks_on_people(
    people: ComparedPeople, generator: np.random.Generator, *, quick: bool
) -> list[AttackResult]:
    """Try every attack on people's traits and on their rows."""
    tables, traits = people.aligned(quick, numbered=True)
    first, second = spawn(generator, 2)
    on_rows = [("", attack) for attack in planned_on_rows(people, tables, traits, None)]
    return [*attacks_on(tables, first, quick=quick), *_tried("histories", on_rows, second)]


def unaudited_people(people: ComparedPeople, *, k: int, title: str) -> Audit:
    """Return what can be said of a release of people that is not attacked."""
    found = unaudited(people.aligned(quick=True)[0], k=k, title=title)
    return found.extended(summary=people.summary(), limits=[OF_HISTORIES])


def unaudited(tables: Aligned, *, k: int, title: str) -> Audit:
    """Return what can be said of a release that is not attacked: how much of its shape is left."""
    far = measures.moved(tables, measures.marginals(tables))
    compatibility = measures.covariance_compatibility(tables)
    metrics = {
        "covariance_compatibility": compatibility,
        **measures.distance_metrics(far),
        **measures.weighted(tables, k),
    }
    return Audit(
        {
            **_head(tables, k, title),
            "metrics": {name: value for name, value in metrics.items() if math.isfinite(value)},
            "where": measures.worst_column(far),
        }
    )


def _check_parameters(k: int, attempts: int | None, estimator: Any) -> None:
    check_int("audit", "k", k, 2)
    if attempts is not None:
        check_int("audit", "attempts", attempts, 1)
    if estimator is not None and not hasattr(estimator, "get_params"):
        raise ParameterError(
            "The 'estimator' of audit must be a scikit-learn estimator. Got a "
            f"{type(estimator).__name__}."
        )


def _carriers(attacks: Sequence[AttackResult], columns: Sequence[str]) -> list[str]:
    """Return the columns that are inferred best, beyond strangers."""
    found = {f"inference:{column}": column for column in columns}
    known = sorted((r for r in attacks if r.name in found), key=lambda result: -result.risk)
    return [found[result.name] for result in known if result.risk > 0]


def attacks_on(
    tables: Aligned, generator: np.random.Generator, *, quick: bool
) -> list[AttackResult]:
    """Try every attack that the tables allow."""
    hidden = secrets_of(tables, None, target_of(tables, None), quick)
    attackers = attackers_of(tables, quick)
    work = planned(tables, hidden, None, _attempts(tables), attackers, quick)
    return _tried("attacks", list(work), generator)


def _tried(
    what: str,
    work: Sequence[tuple[str, Callable[[np.random.Generator], AttackResult | None]]],
    generator: np.random.Generator,
) -> list[AttackResult]:
    """Try attacks, each with a generator of its own."""
    found = []
    with bar(what, len(work)) as advance:
        for (name, attack), rng in zip(work, spawn(generator, len(work))):
            result = attack(rng)
            found += [] if result is None else [result]
            advance(1, note=name)
    return found


def target_of(tables: Aligned, target: str | None) -> str | None:
    if target is None:
        return next(iter(tables.of_role(Role.TARGET)), None)
    _check_column(tables, "target", target)
    if len(tables.columns) < 2:
        raise ParameterError(
            "The 'target' of audit needs at least one other column to predict it from."
        )
    return target


def secrets_of(
    tables: Aligned, sensitive: Sequence[str] | None, target: str | None, quick: bool
) -> list[str]:
    """Return the columns to infer; a single column has nothing to be inferred from."""
    if isinstance(sensitive, str):
        raise ParameterError(
            f"The 'sensitive' parameter of audit must be a list of columns: ['{sensitive}']."
        )
    if len(tables.columns) < 2:
        return []
    if sensitive is not None:
        for name in sensitive:
            _check_column(tables, "sensitive", name)
        return list(dict.fromkeys(sensitive))
    named = tables.of_role(Role.SENSITIVE, Role.TARGET)
    aim = [] if target is None else [target]
    if named and not quick:
        return list(dict.fromkeys([*named, *aim]))
    most = MOST_SECRETS_QUICKLY if quick else _MOST_SECRETS
    shown = set(list(dict.fromkeys([*aim, *(named or tables.columns)]))[:most])
    return [name for name in tables.columns if name in shown]


def _left_out(
    tables: Aligned, hidden: Sequence[str], sensitive: Sequence[str] | None
) -> dict[str, str]:
    """Say that only some columns are inferred because there are so many."""
    total = len(tables.of_role(Role.SENSITIVE, Role.TARGET)) or len(tables.columns)
    if sensitive is not None or len(hidden) >= total or total < 2:
        return {}
    return {"columns inferred": f"{len(hidden)} of {total}: list the sensitive ones to choose"}


def _check_column(tables: Aligned, option: str, name: str) -> None:
    if name not in tables.columns:
        hint = nearest_name(str(name), tables.columns)
        raise ParameterError(
            f"is not one of the compared columns: {hint}",
            parameter=option,
            subject=f"The '{option}' parameter of audit",
        )


def _attempts(tables: Aligned) -> int:
    """Return how many attempts keep a search through all records a matter of seconds."""
    largest = max(len(tables.original), len(tables.release))
    return max(_FEWEST, min(_MOST, _MOST * _LARGE // largest))


def seeded(random_state: RandomState) -> tuple[Any, np.random.Generator]:
    """Return a generator, and the seed to repeat the audit with."""
    if random_state is None:
        random_state = secrets.randbits(32)
    seed = int(random_state) if isinstance(random_state, Integral) else "a generator was given"
    return seed, as_generator(random_state)


def _head(tables: Aligned, k: int, title: str) -> Result:
    """Say what was compared with what."""
    control = "no control"
    if tables.control is not None:
        count = len(tables.control)
        control = f"{count:,} in the control" if count >= k else f"fewer than {k} in the control"
    people = tables.original.n_people
    unit = "" if tables.original.people is None else f" of {people:,} people"
    return {
        "title": title,
        "summary": f"{counted(len(tables.original), 'original record')}{unit}, "
        f"{counted(len(tables.release), 'released record')}, {control}; "
        f"{counted(len(tables.columns), 'column')}.",
        "k": k,
        "records": min(table.n_people for table in tables.present),
        "compared": min(len(tables.original), len(tables.release)),
    }
