"""How tables hang together, proposed from names and values: for a person to check.

Declared keys come first. Else a column is a link where its name says so *and* its values are those
of a key of the other table: whole numbers from 1 on would match every key by values alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import polars as pl

from tulle._plurals import counted
from tulle.table._linked import LOOK_UP, PeopleSection, TableSection
from tulle.table._words import topics_of, words_of

_CONTAINED = 0.995  # of the values of a link that are keys of the other table
_LONGEST = 3  # columns of a composite key
_MOST_SHARED = 8  # columns of the same name that are tried for one
_GENERAL = {"id", "key", "code", "nr", "no", "number", "uuid", "guid", "index"}


class Link(NamedTuple):
    """Columns of a table that hold the key of another, and how many rows name nobody there."""

    child: str
    columns: tuple[str, ...]
    parent: str
    key: tuple[str, ...]
    orphans: int = 0


class LinkedPlan(NamedTuple):
    """A proposal: who the people are, how the tables lead to them, and that in sentences."""

    people: PeopleSection
    tables: dict[str, TableSection]
    left_out: list[str]  # tables that nothing links
    second: dict[str, dict[str, str]]  # by table: further columns that hold a key, and whose
    sentences: list[str]


Frames = Mapping[str, pl.DataFrame]
Keys = Mapping[str, tuple[str, ...]]


def propose_links(
    frames: Frames, keys: Keys, declared: Iterable[Sequence[object]], people: str = ""
) -> LinkedPlan:
    """Propose who is counted (unless ``people`` says so), and the parent and look-ups of tables."""
    links = _found(frames, keys, [Link(*one) for one in declared])  # type: ignore[arg-type]
    people = people or _people(frames, links)
    if not people:
        return LinkedPlan(PeopleSection(), {}, list(frames), {}, ["No table leads to another."])
    depth = _depths(people, links)
    chosen, look_ups, second = _parents(people, links, depth)
    named = _keys(frames, keys, links, people)
    tables = {people: TableSection()}
    for name in sorted(depth, key=lambda name: depth[name]):
        if name != people:
            way = chosen[name]
            tables[name] = TableSection(way.parent, way.columns, named.get(name, ()))
    for name, references in look_ups.items():
        link = tuple(f"{one.child}.{one.columns[0]}" for one in references)
        tables[name] = TableSection(link=link, key=references[0].key, role=LOOK_UP)
    left = [name for name in frames if name not in tables]
    told = _sentences(frames, people, named, chosen, look_ups, left)
    key = "".join(named.get(people, ())[:1])
    return LinkedPlan(PeopleSection(people, key), tables, left, second, told)


# Links.


def _found(frames: Frames, keys: Keys, declared: list[Link]) -> list[Link]:
    """Return the declared links, and those that names and values propose."""
    links = [_counted(frames, one) for one in declared]
    unique = {name: _unique_columns(frame) for name, frame in frames.items()}
    known = {(one.child, one.columns) for one in links}
    for child, parent in ((c, p) for c in frames for p in frames if c != p):
        for key in unique[parent]:
            for column in frames[child].columns:
                one = Link(child, (column,), parent, (key,))
                if (child, one.columns) in known or not _named_so(column, key, parent):
                    continue
                if column in unique[child] and not _stands_above(frames, one, keys):
                    continue
                links += _contained(frames, one)
    return links + _composite(frames, keys, links)


def _unique_columns(frame: pl.DataFrame) -> list[str]:
    """Return the columns that could be keys: whole numbers or text, each value once."""
    return [
        series.name
        for series in frame
        if (series.dtype.is_integer() or series.dtype == pl.String)
        and frame.height
        and not series.null_count()
        and series.n_unique() == frame.height
    ]


def _named_so(column: str, key: str, parent: str) -> bool:
    """Return whether a column's name says that it holds this key of this table.

    >>> _named_so("patient_id", "patient_id", "people"), _named_so("id", "id", "patients")
    (True, False)
    >>> _named_so("PatientNr", "id", "patients"), _named_so("ward", "code", "wards")
    (True, True)
    """
    words, theirs, table = (set(words_of(name)) for name in (column, key, parent))
    # of two words in one, the parts say it
    words = {word for word in words if not any(w in word and w != word for w in words)}
    if words == theirs:
        return not theirs <= _GENERAL
    return bool(words & table) and words - table <= _GENERAL and theirs - table <= _GENERAL


def _stands_above(frames: Frames, link: Link, keys: Keys) -> bool:
    """Return whether the parent is the parent, where the key is unique in both tables."""
    words = set(words_of(link.key[0])) - _GENERAL
    speaks = [bool(words & set(words_of(name))) for name in (link.parent, link.child)]
    if speaks[0] != speaks[1]:
        return speaks[0]
    return frames[link.parent].height > frames[link.child].height


def _contained(frames: Frames, link: Link) -> list[Link]:
    """Return the link with its count, if nearly all of its values are keys of the parent."""
    own = frames[link.child].select(link.columns)
    types = zip(own.dtypes, frames[link.parent].select(link.key).dtypes)
    if not all(a == b or (a.is_integer() and b.is_integer()) for a, b in types):
        return []
    one, named = _counted(frames, link), own.drop_nulls().height
    strange = named - (own.height - one.orphans)
    return [one] if named and strange <= (1 - _CONTAINED) * named else []


def _counted(frames: Frames, link: Link) -> Link:
    """Count the rows that name no row of the parent, or none at all."""
    own = frames[link.child].select(link.columns)
    keys = frames[link.parent].select(link.key).rename(dict(zip(link.key, link.columns)))
    try:
        known = own.cast(keys.schema).join(keys.unique(), on=link.columns, how="semi").height
    except pl.exceptions.PolarsError:  # of declared keys, in databases without types
        return link
    return link._replace(orphans=own.height - known)


def _composite(frames: Frames, keys: Keys, links: list[Link]) -> list[Link]:
    """Return links by several columns of the same names, one of which leads further up."""
    upward: dict[str, set[str]] = {}
    for one in links:
        upward.setdefault(one.child, set()).update(one.columns)
    linked = {frozenset((one.child, one.parent)) for one in links}
    found: list[Link] = []
    for child, parent in ((c, p) for c in frames for p in upward if c != p):
        shared = [name for name in frames[parent].columns if name in frames[child].columns]
        tried = (
            Link(child, columns, parent, columns)
            for size in range(2, _LONGEST + 1)
            for columns in combinations(shared[:_MOST_SHARED], size)
            if upward[parent] & set(columns) and columns == keys.get(parent, columns)
        )
        for one in tried if frozenset((child, parent)) not in linked else ():
            own, other = (frames[t].select(one.columns) for t in (parent, child))
            # what is unique in both tables says nothing of which is the parent
            if _names_rows(own) and not _names_rows(other) and (known := _contained(frames, one)):
                found += known
                break
    return found


def _names_rows(keys: pl.DataFrame) -> bool:
    return bool(keys.height) and keys.drop_nulls().n_unique() == keys.height


# People, parents and look-ups.


def _people(frames: Frames, links: list[Link]) -> str:
    """Return the table that is most likely that of the people."""
    parents = {one.parent for one in links}

    def rank(name: str) -> tuple[bool, int, int]:
        keys = [c for one in links if one.parent == name for c in one.key]
        words = [*topics_of(name), *(topic for key in keys for topic in topics_of(key))]
        return "person" in words, len(_depths(name, links)), frames[name].height

    best = max(parents, key=rank, default="")
    above = {
        one.parent for one in links if one.child == best and "household" in topics_of(one.parent)
    }
    return next(iter(above), best)


def _depths(people: str, links: list[Link]) -> dict[str, int]:
    """Return the tables that lead to the people, with the longest way of each."""
    depths, turn = {people: 0}, [people]
    while turn:
        at = turn.pop()
        for one in links:
            deeper = depths[at] + 1
            farther = depths.get(one.child, 0) < deeper <= len(links)
            if one.parent == at and one.child not in (people, at) and farther:
                depths[one.child] = deeper
                turn.append(one.child)
    return depths


def _parents(
    people: str, links: list[Link], depth: Mapping[str, int]
) -> tuple[dict[str, Link], dict[str, list[Link]], dict[str, dict[str, str]]]:
    """Return the parent of each table, the look-ups with who refers to them, and what is left.

    Of several ways to the people the longest is taken: a laboratory value is that of a visit, not
    only of a patient.
    """
    chosen: dict[str, Link] = {}
    look_ups: dict[str, list[Link]] = {}
    second: dict[str, dict[str, str]] = {}
    for one in sorted(links, key=lambda one: -depth.get(one.parent, -1)):
        if one.child not in depth:
            continue
        itself = one.parent == one.child
        if one.parent in depth and not itself and one.child not in (people, *chosen):
            chosen[one.child] = one
            continue
        if one.parent not in depth and len(one.columns) == 1:
            look_ups.setdefault(one.parent, []).append(one)
            continue
        taken = chosen[one.child].columns if one.child in chosen else ()
        for column in set(one.columns) - {*taken}:
            second.setdefault(one.child, {})[column] = one.parent
    return chosen, look_ups, second


def _keys(frames: Frames, keys: Keys, links: list[Link], people: str) -> dict[str, tuple[str, ...]]:
    """Return the key of each table: the one others link to, the declared one, or one named so."""
    found = {one.parent: one.key for one in reversed(links)} | dict(keys)
    for name, frame in frames.items():
        if name in found:
            continue
        words = set(words_of(name)) | _GENERAL
        own = [c for c in _unique_columns(frame) if set(words_of(c)) <= words]
        own = [c for c in own if set(words_of(c)) & _GENERAL]
        if own:
            found[name] = (own[0],)
    return found


# Sentences.


def _sentences(
    frames: Frames,
    people: str,
    keys: Keys,
    chosen: Mapping[str, Link],
    look_ups: Mapping[str, list[Link]],
    left: list[str],
) -> list[str]:
    """Say what was found, as a person would check it."""
    key, leading = ", ".join(keys.get(people, ())), counted(len(chosen), "table", "lead")
    first = f"{counted(len(frames), 'table')}, {1 + len(chosen)} of people. People: {people} "
    told = [f"{first}(key {key}; {leading} to it)."]
    if look_ups:
        told[0] += f" Look-up: {', '.join(look_ups)}."
    for one in reversed(list(chosen.values())):  # parents first
        way, at = [one.parent], one.parent
        while at in chosen:
            at = chosen[at].parent
            way.append(at)
        sentence = f"{one.child}.{'+'.join(one.columns)} -> {' -> '.join(way)}"
        rows = counted(one.orphans, "row")
        told.append(f"{sentence}: {rows} of nobody (left out)." if one.orphans else f"{sentence}.")
    for name, references in look_ups.items():
        told += [f"{one.child}.{one.columns[0]} -> {name} (look-up)." for one in references]
    if left:
        told.append(f"Not linked, left out until stated: {', '.join(left)}.")
    return told
