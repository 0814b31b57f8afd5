"""What every record is turned into before it is placed: coordinates, cells of columns, a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tulle._large.facts import Keys, TableFacts
from tulle._random import spawn
from tulle._shape.cells import Cells, fit_cells
from tulle._shape.columns import Owners, weigh_people
from tulle._shape.dependencies import Dependency, find_dependencies
from tulle._threads import on_all_cores
from tulle._types import Floats, Ints
from tulle.table._encoder import TableEncoder, longer
from tulle.table._rare import Crowd
from tulle.table.schema import Schema

Records = NDArray[Any]  # of the type that a layout has
_LOST = -1  # the cell of a value in a state of too few people


@dataclass(frozen=True)
class Layout:
    """How records are encoded, the same for all batches: it holds no row."""

    encoder: TableEncoder
    names: list[str]  # of all columns that are released
    models: list[Cells]  # of those that do not follow from others
    dependencies: list[Dependency]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the type of a record on its way to its cell."""
        most = max((model.size for model in self.models), default=0)
        cell = np.int16 if most < 2**15 else np.int32
        return np.dtype(
            [
                ("point", np.float64, (len(self.encoder.scales_),)),
                ("cells", cell, (len(self.models),)),
                ("unit", np.int32),  # the class of the record, where there are classes
                ("level", np.int64),
                ("person", np.uint64),
            ]
        )

    def records(
        self, frame: pl.DataFrame, units: Ints, levels: Ints, people: Keys | None
    ) -> Records:
        """Return the records of a batch; ``units`` are their classes."""
        records = np.empty(frame.height, dtype=self.dtype)
        records["point"] = self.encoder.encode(frame)
        records["unit"] = units
        records["level"] = levels
        records["person"] = 0 if people is None else people
        for place, model in enumerate(self.models):
            column: Any = self.encoder.codecs[model.name].as_known(frame[model.name])
            records["cells"][:, place] = model.encode(column)
        return records

    def cells_of(self, codes: Ints, rng: np.random.Generator) -> list[Ints]:
        """Return the cells of each column; a record without one gets that of another at random."""
        columns = []
        for narrow in codes.T:
            column = narrow.astype(np.int64)
            lost = column == _LOST
            known = column[~lost] if not lost.all() else np.zeros(1, dtype=np.int64)
            column[lost] = rng.choice(known, int(lost.sum()))
            columns.append(column)
        return columns


def fit_layout(
    schema: Schema,
    facts: TableFacts,
    sample: pl.DataFrame,
    people: Keys | None,
    k: int,
    rng: np.random.Generator,
    *,
    exact: bool = False,
) -> Layout:
    """Learn how to encode a table from its sample and its facts.

    Nothing that fewer than ``k`` people hold is learnt; ``people`` are the keys of the sample's.
    """
    persons = None if people is None else person_numbers(people)
    weights = weigh_people(persons, sample.height)
    more = facts.more(sample, persons, k)
    crowd = Crowd.of_kept(k, np.ones(sample.height, dtype=bool), persons, rng)
    encoder = TableEncoder(schema).fit_longer(sample, more, crowd)
    encoder.stretch({name: facts.stretch(sample[name]) for name in encoder.codecs})
    columns = encoder.plain(sample, k, rng, persons)
    found = find_dependencies(columns, k, weights, rng=None if exact else rng)
    names = list(encoder.codecs)
    own = dict(zip(names, spawn(rng, len(names))))

    def model(name: str) -> Cells:
        others = len(more.get(name, ()))  # each of one more person
        series, together = longer(sample[name], more), crowd.with_more(others).people
        column = encoder.codecs[name].plain(series, k, own[name], together)
        owners = Owners(np.r_[weights, np.ones(others)], together)
        return fit_cells(column, k, owners, own[name], exact=exact)[0]

    models = on_all_cores(model, names, sample.height * len(names))
    sizes = {model.name: model.size for model in models}
    found = [one for one in found if one.steps or len(one.keys) >= sizes[one.source]]
    left_out = {dependency.target for dependency in found}
    kept = [model for model in models if model.name not in left_out]
    return Layout(encoder, names, kept, found)


def row_order(records: Records, seed: int) -> Ints:
    """Return an order of records that depends on what they are, not on how they came."""
    return np.lexsort((records["level"], record_keys(records, seed)))


def record_keys(records: Records, seed: int) -> Keys:
    """Return a word for each record, which equal ones share; levels do not count."""
    with np.errstate(over="ignore"):
        mixed = np.full(len(records), np.uint64(seed))
        for column in records["point"].T:
            mixed = _stirred(mixed, (column + 0.0).view(np.uint64))  # -0.0 is 0.0
        for column in (*records["cells"].T, records["person"]):
            mixed = _stirred(mixed, column.astype(np.uint64))
    return mixed


def _stirred(mixed: Keys, words: Keys) -> Keys:
    mixed = (mixed ^ words) * np.uint64(0xFF51AFD7ED558CCD)
    return mixed ^ (mixed >> np.uint64(33))


def person_numbers(keys: Keys) -> Ints:
    """Return the person of each record as a number."""
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


def standardised(records: Records, layout: Layout) -> Floats:
    """Return the points of records on comparable scales."""
    return np.asarray(records["point"] / layout.encoder.scales_)
