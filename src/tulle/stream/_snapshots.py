"""Which groups a snapshot may update, the ranges of its numbers, and how it is drawn.

Anyone who has two snapshots can subtract them. If one record arrived in between and its group's
new statistics are shown, the difference *is* that record. So a group that was shown keeps showing
its old statistics until at least as many records (of different people) have joined its family (it,
and what has split off it) as the largest level in it requires. Then the difference of two snapshots
is a sum over a valid group of newcomers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import polars as pl

from tulle._moments import GroupMoments
from tulle._people import Owners
from tulle._shape.quantiles import Quantiles, fit_quantiles
from tulle._types import Floats, Ints
from tulle.condense._synthesis import count_degenerate, synthesize
from tulle.errors import PrivacyError
from tulle.stream._engines import Engine
from tulle.stream._groups import UNPUBLISHED, GroupArrays, Scaling, StreamGroups
from tulle.stream._held import hide_few
from tulle.stream._people import GroupMembers
from tulle.table._codecs import Affine, Codec
from tulle.table._drawing import allot, mean_present
from tulle.table._encoder import TableEncoder
from tulle.table._numbers import NumberCodec, is_present
from tulle.table.schema import Kind

# What the snapshots of a stream have shown.


@dataclass(frozen=True)
class Published:
    """Groups that were shown, and behind each of them the groups of the stream, added up then.

    Both hold the same records in all, but divide them differently. The family of a group shown is
    that group of the snapshot before from which it comes.
    """

    shown: StreamGroups
    behind: StreamGroups

    @classmethod
    def nothing(cls, dimensions: int) -> Published:
        return cls(StreamGroups(dimensions), StreamGroups(dimensions))

    def __len__(self) -> int:
        return len(self.shown)

    def taken(self, rows: Ints) -> Published:
        return Published(self.shown.taken(rows), self.behind.taken(rows))

    def extend(self, other: Published) -> None:
        self.shown.extend(other.shown)
        self.behind.extend(other.behind)

    def moved(self, way: Affine) -> Published:
        return Published(self.shown.moved(way), self.behind.moved(way))


# Families that enough newcomers have joined, as the next snapshot shows them. A family is a
# group that was shown and what has split off it since. Its current groups cannot be shown: the
# halves of a split are made from the statistics of that moment, and records that arrive later
# join one of them; if the first newcomer makes a group split and all others join one half,
# the other half is what was shown before and that one newcomer. So the sum of all newcomers is
# added to what was shown, and the result is split by the same rule. What a snapshot shows then
# depends on what was shown before and on sums over valid groups of newcomers, and on nothing
# else. The stream itself continues with its own groups. Each is from now on behind the nearest of
# the groups shown, which gets its next newcomers.


@dataclass(frozen=True)
class Renewed:
    """Updated families; ``published.shown`` says for each group of which of them it is."""

    newcomers: GroupMoments  # of each family
    people: Ints  # behind the newcomers
    published: Published
    rows: Ints  # the groups of the stream in these families
    places: Ints  # which group shown each of them is behind


def renew(
    groups: StreamGroups,
    ripe: Published,
    owners: Ints,
    engine_of: Callable[[StreamGroups], Engine],
    joined: Ints | None = None,
) -> Renewed:
    """Show families again; ``owners`` holds the family number of each stream group, or -1.

    ``joined`` are the people behind the newcomers of each, where people have several records.
    """
    rows = np.flatnonzero(owners >= 0)
    live, owners = groups.taken(rows), owners[rows]
    moments = live.moments()
    number = np.arange(len(ripe))
    newcomers = moments.merged(owners).without(ripe.behind.moments())
    sums = ripe.shown.moments().stacked(newcomers).merged(np.concatenate([number, number]))
    shown = StreamGroups(groups.dimensions, capacity=max(1, len(rows)))
    # everybody counts once in the groups of a family, and all of them are in what is shown
    counted = np.bincount(owners, live.view().people, len(ripe)).astype(np.int64)
    shown.append(sums, None if joined is None else np.maximum(counted, joined))
    shown.view().families[:] = number
    _split_all(shown, engine_of(shown))
    places = _nearest(live, owners, shown)
    published = Published(shown, _behind(moments, places, len(shown)))
    people = newcomers.counts if joined is None else joined
    return Renewed(newcomers, people, published, rows, places)


def _split_all(groups: StreamGroups, engine: Engine) -> None:
    group = 0
    while group < len(groups):
        before = len(groups)
        engine.settle(group)
        if len(groups) == before:
            group += 1


def _nearest(live: StreamGroups, owners: Ints, shown: StreamGroups) -> Ints:
    """Find, for each group of the stream, the nearest group of its family that is shown."""
    from scipy.spatial import KDTree

    points, means = live.view().means, shown.view().means
    if not len(points):
        return np.zeros(0, dtype=np.int64)
    # one more dimension puts families farther apart than any two groups of one are
    apart = 4.0 * (1.0 + np.abs(points).max() + np.abs(means).max()) * math.sqrt(means.shape[1])
    tree = KDTree(np.column_stack([shown.view().families * apart, means]))
    return np.asarray(tree.query(np.column_stack([owners * apart, points]))[1], dtype=np.int64)


def _behind(moments: GroupMoments, places: Ints, number: int) -> StreamGroups:
    """Add up the groups of the stream behind each group shown; there may be none."""
    present, owners = np.unique(places, return_inverse=True)
    dimensions = moments.means.shape[1]
    sums = StreamGroups(dimensions, capacity=max(1, len(present)))
    if len(present):
        sums.append(moments.merged(owners))
    behind = StreamGroups(dimensions, capacity=max(1, number))
    behind.size = number
    for target, part in zip(behind.arrays, sums.view(), strict=True):
        target[present] = part
    return behind


# The newcomers that a snapshot shows for the first time. The mean of half a split group is a
# guess, which can lie where no record ever was. What has joined a family since it was last shown
# is none: splits conserve sums, so the difference of the family's sum now and then is the sum of
# the newcomers.


class Means(NamedTuple):
    """Means over some records each, and the largest level that they must satisfy."""

    means: Floats  # (m, d)
    counts: Ints  # (m,)
    levels: Ints  # (m,)
    people: Ints  # (m,), at least so many

    def natural(self, units: Scaling) -> Means:
        return self._replace(means=units.natural(self.means))


class Arrivals(NamedTuple):
    """Families that enough newcomers have joined, and the groups shown for them now."""

    newcomers: Means  # of each family, without those who were shown before
    groups: Means
    families: Ints  # the place of each group's family

    def natural(self, units: Scaling) -> Arrivals:
        newcomers, groups = (part.natural(units) for part in self[:2])
        return Arrivals(newcomers, groups, self.families)


def arrivals(renewed: Renewed, first: StreamGroups, *, alone: bool) -> Arrivals:
    """Return whom a snapshot shows: families with their groups, groups never shown as one more.

    ``alone``: each record is a person of its own; else somebody may be in several groups.
    """
    newcomers, shown = renewed.newcomers, renewed.published.shown
    families = shown.view().families
    parts = [Means(newcomers.means, newcomers.counts, newcomers.levels, renewed.people)]
    groups = [_means(shown)]
    if len(first):
        whole = first.moments().pooled()
        people = whole.counts if alone else first.view().people.max(keepdims=True)
        parts.append(Means(whole.means, whole.counts, whole.levels, people))
        groups.append(_means(first))
        families = np.concatenate([families, np.full(len(first), len(newcomers.counts))])
    return Arrivals(_stacked(parts), _stacked(groups), families)


def _means(groups: StreamGroups) -> Means:
    used = groups.view()
    return Means(used.means, used.counts, used.levels, used.people)


def _stacked(parts: list[Means]) -> Means:
    return Means._make(np.concatenate(part) for part in zip(*parts, strict=True))


class Change(NamedTuple):
    """What a snapshot shows beyond the one before (the first shows everything), and in all."""

    changed: int  # published groups that are updated
    fewest: int | None  # the fewest newcomers (people) behind such a change
    held_back: int  # condensed records that are not shown yet
    fresh: int  # groups whose statistics were never shown before
    smallest: int | None  # people in the smallest group shown
    small: int  # groups shown with fewer people than a level in them: they were split
    verbatim: int  # groups shown of one person, of level 1
    degenerate: int  # groups shown whose records are all alike

    @classmethod
    def total(cls, parts: list[Change]) -> Change:
        fewest, smallest = (
            min((value for value in values if value is not None), default=None)
            for values in zip(*((part.fewest, part.smallest) for part in parts), strict=True)
        )
        sums = {
            name: sum(getattr(part, name) for part in parts)
            for name in cls._fields
            if name not in ("fewest", "smallest")
        }
        return cls(**sums, fewest=fewest, smallest=smallest)


def publish(
    groups: StreamGroups,
    published: Published | None,
    engine_of: Callable[[StreamGroups], Engine],
    people: GroupMembers | None = None,
) -> tuple[Published, Arrivals, Change]:
    """Return what the next snapshot shows; ``groups`` remember the shown group each belongs to."""
    used = groups.view()
    if published is None:
        used.families[:] = UNPUBLISHED
        published = Published.nothing(groups.dimensions)
    newcomers, levels = _newcomers(used, published)
    joined = None if people is None else people.joined(len(published))
    ripe = (newcomers if joined is None else joined) >= levels
    renewed = renew(
        groups,
        published.taken(np.flatnonzero(ripe)),
        _numbered(ripe)[used.families],
        engine_of,
        None if joined is None else joined[ripe],
    )
    new = np.flatnonzero(used.families == UNPUBLISHED)
    kept = published.taken(np.flatnonzero(~ripe))
    used.families[:] = _numbered(~ripe)[used.families]
    if people is not None:
        people.show(_numbered(~ripe))
    used.families[renewed.rows] = len(kept) + renewed.places
    used.families[new] = len(kept) + len(renewed.published) + np.arange(len(new))
    first = groups.taken(new)
    arrived = arrivals(renewed, first, alone=people is None)
    descent = [np.flatnonzero(~ripe), np.flatnonzero(ripe)[renewed.published.shown.view().families]]
    kept.extend(renewed.published)
    kept.extend(Published(first, first))
    kept.shown.view().families[:] = np.concatenate([*descent, np.full(len(new), UNPUBLISHED)])
    fresh = len(renewed.published) + len(new)
    change = _change(renewed, newcomers[~ripe], fresh, kept.shown)
    if used.counts.sum() - kept.shown.view().counts.sum() != change.held_back:
        raise PrivacyError("the snapshot does not add up to the groups: nothing is released")
    return kept, arrived, change


def _newcomers(used: GroupArrays, published: Published) -> tuple[Ints, Ints]:
    """Return who joined the family of each shown group since, and the largest level among them."""
    families = len(published)
    known = used.families >= 0
    totals = np.bincount(
        used.families[known], weights=used.counts[known], minlength=families
    ).astype(np.int64)
    levels = np.ones(families, dtype=np.int64)
    np.maximum.at(levels, used.families[known], used.levels[known])
    return totals - published.behind.view().counts, levels


def _numbered(chosen: np.ndarray) -> Ints:
    """Map the chosen ones to 0, 1, ..., all others to -1; one extra entry serves family -1."""
    numbers = np.full(len(chosen) + 1, UNPUBLISHED)
    numbers[:-1][chosen] = np.arange(np.count_nonzero(chosen))
    return numbers


def _change(renewed: Renewed, held_back: Ints, fresh: int, shown: StreamGroups) -> Change:
    joined, used = renewed.people, shown.view()
    return Change(
        changed=len(joined),
        fewest=int(joined.min()) if len(joined) else None,
        held_back=int(held_back.sum()),
        fresh=fresh,
        smallest=int(used.people.min()) if len(shown) else None,
        small=int((used.people < used.levels).sum()),
        verbatim=int((used.people == 1).sum()),
        degenerate=count_degenerate(shown.moments()),
    )


# The ranges of numbers that a snapshot shows. Decoded numbers are clipped to the range of all
# records seen. If a newcomer whose group is still held back is the largest of a column, that range
# would show its value. So while anything is held back, a snapshot keeps the ranges of the one
# before. Where enough newcomers lie outside of them on average, they are extended as far as the
# means of the groups that these have joined: ranges follow a drift, and speak of valid groups,
# never of one record.

_ROUNDING = 1e-9  # of the largest value: a mean so little outside is a mean of values inside


class Range(NamedTuple):
    """Where the numbers of a column lie; ``pair``: the only two that there are, if it is two."""

    low: float
    high: float
    pair: tuple[float, float] | None


def seen_ranges(encoder: TableEncoder) -> list[Range]:
    """Return the range of each numeric column whose range is learnt, in column order."""
    return [Range(codec.low, codec.high, codec.pair) for codec, _ in _unbounded(encoder)]


def next_ranges(
    encoder: TableEncoder, before: list[Range] | None, arrived: list[Arrivals], units: Scaling
) -> list[Range]:
    """Extend the ranges ``before`` by what the newcomers of each class show; None: as seen.

    Extended ranges do not depend on any record that is held back.
    """
    if before is None:
        return seen_ranges(encoder)
    for part in arrived:
        natural = part.natural(units)
        before = [
            _extended(codec, place, range_, natural)
            for (codec, place), range_ in zip(_unbounded(encoder), before, strict=True)
        ]
    return before


def united_ranges(
    first: TableEncoder, mine: list[Range] | None, second: TableEncoder, theirs: list[Range] | None
) -> list[Range] | None:
    """Return what two streams together have shown; one without a snapshot will be shown whole."""
    if mine is None and theirs is None:
        return None
    parts = [
        encoder if ranges is None else confined(encoder, ranges)
        for encoder, ranges in ((first, mine), (second, theirs))
    ]
    return seen_ranges(parts[0].merge(parts[1])[0])


def confined(encoder: TableEncoder, ranges: list[Range]) -> TableEncoder:
    """Return a copy of an encoder that decodes into these ranges."""
    codecs: dict[int, Codec] = {
        id(codec): replace(codec, low=range_.low, high=range_.high, pair=range_.pair)
        for (codec, _), range_ in zip(_unbounded(encoder), ranges, strict=True)
    }
    return encoder.with_codecs([codecs.get(id(codec), codec) for codec in encoder._codecs])


def _unbounded(encoder: TableEncoder) -> Iterator[tuple[NumberCodec, slice]]:
    """Yield the numeric columns whose range is learnt, and their dimensions."""
    for codec, place in zip(encoder._codecs, encoder.slices_.values()):
        if isinstance(codec, NumberCodec) and not codec.fixed:
            yield codec, place


def _extended(codec: NumberCodec, place: slice, before: Range, arrived: Arrivals) -> Range:
    slack = _ROUNDING * max(abs(before.low), abs(before.high))
    newcomers = _means_of_values(codec, place, arrived.newcomers)[arrived.families]
    groups = _means_of_values(codec, place, arrived.groups)
    below = groups[(newcomers < before.low - slack) & (groups < before.low)]
    above = groups[(newcomers > before.high + slack) & (groups > before.high)]
    if not len(below) and not len(above):
        return before
    low = -_rounded_up(-float(below.min()), codec) if len(below) else before.low
    high = _rounded_up(float(above.max()), codec) if len(above) else before.high
    return Range(low, high, None)


def _means_of_values(codec: NumberCodec, place: slice, means: Means) -> Floats:
    """Compute means over the records that have a value; NaN where there are too few."""
    block = means.means[:, place]
    absent = block[:, 1:].sum(axis=1)
    without = means.counts - np.rint(means.counts * (1 - absent))
    enough = means.people - without >= np.minimum(means.levels, means.people)
    return np.where(enough, mean_present(block[:, 0], absent, codec.fill), np.nan)


def _rounded_up(value: float, codec: NumberCodec) -> float:
    """Return the next value at the column's precision: the range holds a group with this mean."""
    places = codec.decimals if codec.kind is Kind.DECIMAL else 0
    if places is None:
        return value
    nearest = round(value, places)
    return nearest if nearest >= value else round(nearest + 10.0**-places, places)


# The form of columns of numbers between their heaps, which draws along the axes of groups smear:
# the smoothed quantile function of the initial records, as tables have it, in pieces of at least as
# many people as anybody asks for. Later records are counted in these pieces. A snapshot updates the
# count of a piece only after as many newcomers, as it does a group; what is drawn beyond the range
# of the initial records (a drift) stays as it is. A heap that forms later shows in its piece: of
# the numbers there, written in base two, it is counted how many have each bit. Where one number has
# the majority of every bit, at least so many people hold it as differ in no bit, and it is told
# once these are enough. Sums of bits do not depend on the size of batches, and no number is kept.

BITS = 24  # numbers that are longer, in units of their last decimal, have no heaps
_FOUR_BITS = np.arange(16)[:, None] >> np.arange(4) & 1
_HEAP = 0.05  # of all people, as among the initial records


@dataclass(frozen=True, repr=False)
class ShapeOfNumbers:
    """The pieces of a column, and how many records in groups there are and were shown in each."""

    pieces: Quantiles
    span: tuple[float, float]  # the range that it is known of
    least: int  # newcomers that a piece is updated after
    counts: Ints
    shown: Ints
    bits: Ints  # (pieces, 1 + bits): of how many numbers, and how many of them have each bit
    shown_bits: Ints

    def counted(self, values: Floats) -> ShapeOfNumbers:
        """Return the form with more values, of which those beyond its range are left out."""
        low, high = np.nextafter(self.span[0], -np.inf), self.span[1]
        ends = np.r_[low, np.clip(self.pieces.cuts, low, high), high]
        places = np.searchsorted(ends, values, side="left") - 1  # the first and last are beyond it
        inside = (places >= 0) & (places < len(self.counts))
        places, pieces = places[inside], len(self.counts)
        came, bits = np.bincount(places, minlength=pieces), self.bits.copy()
        bits[:, 0] += came
        width = bits.shape[1]
        if width > 1:
            steps = np.rint((values[inside] - self.span[0]) / self._unit).astype(np.int64)
            for first in range(1, width, 4):  # four bits at once: one count of sixteen is quick
                of_sixteen = 16 * places + (steps >> first - 1 & 15)
                told = np.bincount(of_sixteen, minlength=16 * pieces).reshape(pieces, 16)
                bits[:, first : first + 4] += told @ _FOUR_BITS[:, : width - first]
        return replace(self, counts=self.counts + came, bits=bits)

    @property
    def _unit(self) -> float:
        return self.pieces.step * 10.0 ** -(self.pieces.decimals or 0)

    def heaps(self) -> Iterator[tuple[int, float, float]]:
        """Yield the pieces in which a number that is shown outweighs all others, and its share.

        Of numbers of any precision no bits are counted, and no heap can be told.
        """
        if self.shown_bits.shape[1] == 1:
            return
        least = max(self.least, _HEAP * self.shown_bits[:, 0].sum())
        wide = self.pieces.low < self.pieces.high
        for piece in np.flatnonzero(wide & (self.shown_bits[:, 0] >= least)):
            count, ones = self.shown_bits[piece, 0], self.shown_bits[piece, 1:]
            differ = np.minimum(ones, count - ones)
            if count - differ.sum() < max(least, count / 2):
                continue
            steps = (ones * 2 > count) @ (1 << np.arange(len(ones)))
            # other numbers have half of the bits in which they vary at all
            others = 2 * differ[differ > 0].mean() if differ.any() else 0.0
            others = np.clip(others, differ.max(initial=0), differ.sum())
            heap = round(self.span[0] + float(steps) * self._unit, self.pieces.decimals)
            yield int(piece), heap, float(1 - others / count)

    def renewed(self) -> ShapeOfNumbers:
        """Return the form that the next snapshot shows."""
        ripe = self.counts - self.shown >= self.least
        shown = np.where(ripe, self.counts, self.shown)
        return replace(
            self, shown=shown, shown_bits=np.where(ripe[:, None], self.bits, self.shown_bits)
        )

    def whole(self) -> ShapeOfNumbers:
        """Return the form that shows every record counted."""
        return replace(self, shown=self.counts, shown_bits=self.bits)

    def joined(self, other: ShapeOfNumbers) -> ShapeOfNumbers:
        """Return the form with the records of another stream, each in the middle of its piece.

        Of heaps that formed later, those of this stream stay.
        """
        middles = (other.pieces.low + other.pieces.high) / 2
        places = np.searchsorted(self.pieces.cuts, middles, side="left")
        counts, shown = (
            mine + np.bincount(places, theirs, len(mine)).astype(np.int64)
            for mine, theirs in ((self.counts, other.counts), (self.shown, other.shown))
        )
        return replace(self, counts=counts, shown=shown)

    def given(self, values: Floats, rng: np.random.Generator) -> Floats:
        """Return drawn values that lie in the pieces as the records shown do, in the same order."""
        inside = (values >= self.span[0]) & (values <= self.span[1])
        pieces = replace(
            self.pieces, shares=self.shown / self.shown.sum(), cells=np.zeros_like(self.counts)
        )
        alone = np.zeros(int(inside.sum()), dtype=np.int64)
        formed = values.copy()
        if len(alone):
            ranks = np.argsort(np.argsort(values[inside], kind="stable"))
            formed[inside] = pieces.draw(alone, rng, ranks.astype(np.float32))
            places = np.searchsorted(self.pieces.cuts, formed, side="left")
            for piece, heap, share in self.heaps():
                mine = inside & (places == piece)
                formed[mine & (rng.random(len(formed)) < share)] = heap
        return formed


def fit_forms(
    encoder: TableEncoder, matrix: Floats, people: Ints | None, rng: np.random.Generator
) -> dict[str, ShapeOfNumbers]:
    """Return the forms of the columns of numbers, from the initial records that are in groups."""
    forms = {}
    for codec, place in zip(encoder._codecs, encoder.slices_.values()):
        if not isinstance(codec, NumberCodec) or codec.kind is Kind.DATETIME or codec.pair:
            continue
        here = is_present(matrix[:, place])
        values, own = matrix[here, place.start], None if people is None else people[here]
        owners = Owners.of(own, len(values))
        if owners.n_people() < 2 * codec.least or codec.low >= codec.high:
            continue
        places = codec.decimals if codec.kind is Kind.DECIMAL else 0
        pieces = fit_quantiles(values, codec.least, owners=owners, decimals=places, rng=rng)
        nobody = np.zeros(len(pieces.low), dtype=np.int64)
        steps = math.inf if places is None else (codec.high - codec.low) * 10.0**places
        bits = math.ceil(math.log2(steps + 1)) if steps < 1 << BITS else 0
        none = np.zeros((len(pieces.low), 1 + bits), dtype=np.int64)
        span = (codec.low, codec.high)
        form = ShapeOfNumbers(pieces, span, codec.least, nobody, nobody, none, none)
        forms[codec.name] = form.counted(values).whole()
    return forms


def with_forms(
    frame: pl.DataFrame,
    encoder: TableEncoder,
    forms: dict[str, ShapeOfNumbers],
    rng: np.random.Generator,
) -> pl.DataFrame:
    """Give the columns of drawn records their forms; special values and heaps stay."""
    for name, form in forms.items():
        series, codec = frame[name], encoder.codecs[name]
        assert isinstance(codec, NumberCodec)
        if not series.dtype.is_numeric() or series.dtype.is_decimal():
            continue
        values = series.cast(pl.Float64).fill_null(np.nan).to_numpy()
        special = [value for value in codec._special if not isinstance(value, str)]
        plain = np.isfinite(values) & ~np.isin(values, special)
        formed = values.copy()
        formed[plain] = np.clip(form.given(values[plain], rng), codec.low, codec.high)
        told = pl.Series(name, np.nan_to_num(formed)).cast(series.dtype)
        frame = frame.with_columns(told.zip_with(pl.Series(plain), series))
    return frame


# Pseudo-data of a stream, from the statistics that it may show.


def draw(
    encoder: TableEncoder,
    units: Scaling,
    shown: list[StreamGroups],
    forms: dict[str, ShapeOfNumbers],
    rng: np.random.Generator,
    *,
    distribution: str,
    n_samples: int | None,
) -> tuple[pl.DataFrame, Ints]:
    """Draw new records in random order; return them and the place of their groups in ``shown``."""
    moments = stacked([groups.moments() for groups in shown])
    sizes = moments.counts
    if n_samples is not None:
        shares = moments.counts[None, :].astype(float)
        sizes = allot(shares, np.array([n_samples]), rng)[0]
    matrix, groups = synthesize(_spread(moments), rng, distribution=distribution, sizes=sizes)
    order = rng.permutation(len(groups))
    matrix, groups = matrix[order], groups[order]
    means = units.natural(moments.means)
    frame = encoder.decode(units.natural(matrix), groups, rng, means=means)
    owners = np.repeat(np.arange(len(shown)), [len(part) for part in shown])
    frame = with_forms(hide_few(frame, encoder, shown, units), encoder, forms, rng)
    return frame, owners[groups]


def stacked(parts: list[GroupMoments]) -> GroupMoments:
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.stacked(part)
    return joined


def _spread(moments: GroupMoments) -> GroupMoments:
    """Return the same means and covariances, as if of more members than dimensions.

    Half of a split group keeps the covariance of the whole, which n records alone could not
    have; the synthesis would take its smallest parts for rounding.
    """
    enough = np.maximum(moments.counts, moments.means.shape[1] + 1)
    factor = enough / moments.counts
    return replace(moments, counts=enough, scatters=moments.scatters * factor[:, None, None])
