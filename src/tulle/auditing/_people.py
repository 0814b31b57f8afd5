"""Who is at risk: people who stand alone or apart, subgroups, columns and values.

The figures of an attack are means over people. Here the same is asked of those who stand apart, of
each category of at least ``k`` people, and of single values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tulle._attacks.inference import CLOSE
from tulle._attacks.linkage import are_own
from tulle._attacks.records import Records, nearest, spacing
from tulle._attacks.result import AttackResult, Scene
from tulle._metrics.cells import Cells, joined, subgroups
from tulle._metrics.peers import (
    copied_combinations,
    disco,
    divergence,
    proximity,
    replicated_uniques,
    unique_matches,
    unique_matches_of_strangers,
)
from tulle._report.model import Block, Section, Table, chart, table
from tulle._types import Flags, Floats, Ints
from tulle.auditing._fitness import exact_keys
from tulle.auditing._tables import Aligned, alike, opened
from tulle.errors import DataError

_POOL = 3  # times the attempts: among so many the tenth that stands apart is looked for
_APART = 0.9  # quantile of the distance to the nearest other person
_WORST = 3  # columns whose values are looked at
_MOST_ROWS = 20
_LEAST = 20  # strangers without whom nothing is compared


# People who stand alone, under the names that others use.


def uniques(tables: Aligned, cells: Cells, secrets: Sequence[str], known: Sequence[str]
            ) -> dict[str, float]:  # fmt: skip
    """Compute copied combinations, unique exact matches, replicated uniques and DiSCO."""
    rows = exact_keys(tables, tables.columns)
    found = {
        "copied_combinations": copied_combinations(rows[0], rows[1]),
        "unique_matches": unique_matches(rows[0], rows[1]),
    }
    if len(rows) > 2:
        found["unique_matches_control"] = unique_matches_of_strangers(rows[2], rows[0], rows[1])
    keys = exact_keys(tables, known or tables.columns)
    found["replicated_uniques"] = replicated_uniques(keys[0], keys[1])
    shares = {name: _disclosed(cells, name, known or tables.columns) for name in secrets}
    if shares:
        worst = max(shares.values(), key=lambda both: both[0])
        found["disco"] = worst[0]
        if len(worst) > 1:
            found["disco_control"] = worst[1]
    return found


class _Asked(NamedTuple):
    """What an intruder knows of everybody, and the cell of what they want to know."""

    keys: list[Ints]  # of original, release and control: alike where all that is known is alike
    answers: list[Ints]

    @classmethod
    def of(cls, cells: Cells, secret: str, known: Sequence[str]) -> _Asked:
        target = cells.names.index(secret)
        columns = [i for i, name in enumerate(cells.names) if name in known and i != target]
        answers = [table[:, target].astype(np.int64) for table in cells.tables]
        return cls(joined(cells.tables, cells.sizes, columns), answers)

    @property
    def people(self) -> list[int]:
        """The tables of people: the original and, if there is one, the control."""
        return [0, *range(2, len(self.keys))]


def _disclosed(cells: Cells, secret: str, known: Sequence[str]) -> list[float]:
    """DiSCO of people in the data and, if there are any, of strangers."""
    keys, answers = asked = _Asked.of(cells, secret, known)
    return [disco(keys[i], answers[i], keys[1], answers[1]) for i in asked.people]


def breaches(
    tables: Aligned, cells: Cells, secrets: Sequence[str], known: Sequence[str]
) -> dict[str, float]:
    """Compute proximity and divergence breach of the worst secret, next to the control's.

    ``cells`` are those of ``tables``, row for row.
    """
    shares: dict[str, list[list[float]]] = {"proximity_breach": [], "divergence_breach": []}
    for name in secrets:
        measure, both = _breach(tables, cells, name, known or tables.columns)
        shares[measure].append(both)
    found: dict[str, float] = {}
    for measure, of_columns in shares.items():
        if of_columns:
            worst = max(of_columns, key=lambda both: both[0])
            found |= dict(zip((measure, f"{measure}_control"), worst))
    return found


def _breach(
    tables: Aligned, cells: Cells, secret: str, known: Sequence[str]
) -> tuple[str, list[float]]:
    """Return which breach a secret can have, and that of people and, if there are any, strangers.

    Records agree with a person if they are in the same cell of everything that is known.
    """
    keys, answers = asked = _Asked.of(cells, secret, known)
    if secret not in tables.original.number_names:
        shares = [divergence(keys[i], answers[i], keys[1], answers[1]) for i in asked.people]
        return "divergence_breach", [float(share.mean()) for share in shares]
    records = (tables.original, tables.release, tables.control)
    numbers = [_numbers_of(one, secret) for one in records if one is not None]
    shares = [proximity(keys[i], numbers[i], keys[1], numbers[1], CLOSE) for i in asked.people]
    return "proximity_breach", [float(share.mean()) for share in shares]


def _numbers_of(records: Records, name: str) -> Floats:
    """Return a column of numbers, NaN where they are missing."""
    one = records.only([name])
    return np.where(one.codes.any(axis=1), np.nan, one.numbers[:, 0])


# Attacks that join tables: two halves of the columns, and a register.


def linkability(scene: Scene, rng: np.random.Generator) -> AttackResult | None:
    """Join what two people know of different columns through the release.

    None if there are fewer than two columns.
    """
    release, columns = scene.release, scene.original.columns
    halves = columns[::2], columns[1::2]
    if not halves[1]:
        return None
    people, outside = scene.people(rng)[1], scene.strangers(rng)
    return AttackResult.of(
        "linkability",
        _joins(people, release, halves),
        _joins(people, release.scrambled(rng), halves).sum(),
        None if outside is None else _joins(outside, release, halves),
        people=people,
        strangers=outside,
        story="Two who hold different columns of the same people, every second column each, join "
        "them through the release. Right if the released record that is nearest in the one half "
        "is nearest in the other half too.",
    )


def _joins(people: Records, release: Records, halves: Sequence[Sequence[str]]) -> Flags:
    rows = [nearest(people.only(h), release.only(h)).rows[:, 0] for h in halves]
    return np.asarray(rows[0] == rows[1])


class Register(NamedTuple):
    """Which people are in an outside table, by the columns that it shares."""

    columns: tuple[str, ...]
    rows: int
    original: Ints
    control: Ints | None


def in_register(tables: Aligned, register: Any) -> Register:
    """Find the people whose values of the shared columns stand once in an outside table."""
    frame = opened("register", register)
    shared = tuple(name for name in tables.columns if name in frame.columns)
    if not shared:
        raise DataError(
            f"the register shares none of the {len(tables.columns)} columns that are compared: "
            "give its columns the names that they have in the original"
        )
    listed = pl.DataFrame({name: alike(tables.kinds[name], [frame[name]])[0] for name in shared})
    once = listed.filter(listed.is_unique())
    rows = [_rows_in(table.select(shared), once) for table in tables.frames[::2]]
    return Register(shared, frame.height, rows[0], rows[1] if len(rows) > 1 else None)


def _rows_in(table: pl.DataFrame, once: pl.DataFrame) -> Ints:
    numbered = table.with_row_index("tulle row")
    found = numbered.join(once, on=once.columns, how="semi", nulls_equal=True)
    return found["tulle row"].to_numpy().astype(np.int64)


def linkage_known(
    scene: Scene, rng: np.random.Generator, *, register: Register
) -> AttackResult | None:
    """Look up the people of a register in the release; None if nobody is in it."""
    if not len(register.original):
        return None
    original, release, control = scene.original, scene.release, scene.control
    rows = register.original[original.take(register.original).sample(scene.attempts, rng)]
    people, apart = original.take(rows), spacing(rows, original)
    strange, outside = None, None
    if control is not None and register.control is not None and len(register.control):
        some = register.control[control.take(register.control).sample(scene.attempts, rng)]
        outside = control.take(some)
        far = nearest(outside, original).distances[:, 0]
        strange = _own(outside, release, register.columns, far)
    return AttackResult.of(
"linkage_known",
_own(people, release, register.columns, apart),
_own(people, release.scrambled(rng), register.columns, apart).sum(),
strange,
people=people,
strangers=outside,
story=f"Somebody with a register that holds {', '.join(register.columns)} looks up the "
        "released record that is nearest to each of its entries. Right if that record is plainly "
        "the person's own, over all columns.",
details={"entries of the register": register.rows,
                 "people found in it": len(register.original)},
)  # fmt: skip


def _own(people: Records, release: Records, columns: Sequence[str], apart: Floats) -> Flags:
    links = nearest(people.only(columns), release.only(columns)).rows[:, 0]
    return are_own(people, release, links, apart)


# Risk by subgroup, of those who stand apart, and by value.


class Outcome(NamedTuple):
    """People in the data or outside, and whether the release comes nearer than anybody else."""

    rows: Ints
    apart: Floats  # to the nearest other person in the data
    nearer: Flags


def section_of_people(
    tables: Aligned, cells: Cells, carriers: Sequence[str], k: int, rng: np.random.Generator,
    attempts: int,
) -> tuple[list[Section], dict[str, float]]:  # fmt: skip
    """Show who is at risk beyond strangers; ``carriers`` are the columns inferred best.

    Without a control nothing can be compared, and there is no section.
    """
    if tables.control is None or tables.control.n_people < max(_LEAST, k):
        return [], {}
    inside = _outcome(tables.original, tables, rng, _POOL * attempts, member=True)
    outside = _outcome(tables.control, tables, rng, _POOL * attempts, member=False)
    limit = float(np.quantile(inside.apart, _APART))
    far = (inside.apart >= limit) & (inside.apart > 0), outside.apart >= limit
    people = [AttackResult.of("everybody", inside.nearer, 0, outside.nearer)]
    if far[0].any() and far[1].any():
        parts = inside.nearer[far[0]], outside.nearer[far[1]]
        people.append(AttackResult.of("the tenth that stands most apart", parts[0], 0, parts[1]))
    groups = [
        AttackResult.of(label, inside.nearer[own], 0, outside.nearer[others])
        for label, (own, others) in _grouped(tables, cells, k, inside.rows, outside.rows)
    ]
    values = [
        result
        for column in carriers[:_WORST]
        for result in _values(tables, cells, column, k, rng, attempts)
    ]
    metrics = {"nearer_excess": people[0].risk}
    if len(people) > 1:
        metrics["nearer_excess_apart"] = people[1].risk
    return [_section(people, _riskiest(groups), _riskiest(values), k)], metrics


def _riskiest(results: list[AttackResult]) -> list[AttackResult]:
    return sorted(results, key=lambda one: -one.risk)[:_MOST_ROWS]


def _outcome(
    records: Records, tables: Aligned, rng: np.random.Generator, most: int, *, member: bool
) -> Outcome:
    rows = records.sample(most, rng)
    people = records.take(rows)
    apart = spacing(rows, records) if member else nearest(people, tables.original).distances[:, 0]
    distances = nearest(people, tables.release).distances[:, 0]
    return Outcome(rows, apart, distances < apart)


def _grouped(
    tables: Aligned, cells: Cells, k: int, inside: Ints, outside: Ints
) -> list[tuple[str, tuple[Flags, Flags]]]:
    """List the categories that at least ``k`` people have, among those who were tried."""
    words = [i for i, name in enumerate(cells.names) if name in tables.domains]
    found = []
    for group in subgroups(cells, words, k, 60):
        name = cells.names[group.column]
        value = tables.domains[name][group.cell] if group.cell else "(missing)"
        rows = (
            cells.tables[0][inside, group.column] == group.cell,
            cells.tables[2][outside, group.column] == group.cell,
        )
        if min(int(some.sum()) for some in rows) >= k:
            found.append((f"{name}: {value}", rows))
    return found


def _values(
    tables: Aligned, cells: Cells, column: str, k: int, rng: np.random.Generator, attempts: int
) -> list[AttackResult]:
    """Which values of a column are read off the nearest released record, by their holders."""
    if column not in tables.domains or tables.control is None:
        return []
    place = cells.names.index(column)
    others = [name for name in tables.columns if name != column]
    hits, held = [], []
    for which, records in ((0, tables.original), (2, tables.control)):
        rows = records.sample(attempts, rng)
        near = nearest(records.take(rows).only(others), tables.release.only(others)).rows[:, 0]
        mine = cells.tables[which][rows, place]
        hits.append(cells.tables[1][near, place] == mine)
        held.append(mine)
    found = []
    for value in np.unique(held[0]):
        own = [codes == value for codes in held]
        if min(int(some.sum()) for some in own) >= k:
            word = tables.domains[column][int(value)] if value else "(missing)"
            read, guessed = (hit[some] for hit, some in zip(hits, own))
            found.append(AttackResult.of(f"{column}: {word}", read, 0, guessed))
    return found


def _section(
    people: list[AttackResult], groups: list[AttackResult], values: list[AttackResult], k: int
) -> Section:
    nearer = (
        "Nearer: a released record is nearer to the person than any other person in the data is. "
        "The excess over people who were kept out is what the release remembers."
    )
    blocks: list[Block] = [_table(people, title=nearer)]
    for title, rows, meaning in (
        (
            "Risk by subgroup", groups,
            f"Each category of at least {k} people among those tried; the bar is how often a "
            "released record is nearer than any other person, the mark the same for people who "
            "were kept out.",
        ),
        (
            "Which values carry the risk", values,
            f"Of the columns that are inferred best: how often a value that at least {k} people "
            "have is read off the nearest released record, and for people who were kept out.",
        ),
    ):  # fmt: skip
        if rows:
            blocks.append(chart("ranking", [_ranked(r) for r in rows], title=title, help=meaning))
            blocks.append(_table(rows, folded=f"{title}, with intervals"))
    text = "Means hide people: the same for those who stand apart, for subgroups and values."
    shown: Section = {"id": "people", "title": "Who is at risk", "text": text, "blocks": blocks}
    return {**shown, "part": "identifiability", "owner_only": True}


def _ranked(row: AttackResult) -> dict[str, Any]:
    count = min(row.attempts, row.control_attempts or 0)
    return {"label": row.name, "value": row.rate, "mark": row.control, "count": count}


def _table(rows: list[AttackResult], **words: str) -> Table:
    columns = "who", "people", "rate", "kept out", "their rate", "excess", "at least", "at most"
    cells = [
        [r.name, r.attempts, r.rate, r.control_attempts, r.control, r.risk, *r.risk_interval]
        for r in rows
    ]
    return table(columns, cells, counts=["people", "kept out"], **words)
