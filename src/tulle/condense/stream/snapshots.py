"""Which groups a snapshot may show anew.

Whoever holds two snapshots can subtract them. If one record arrived in between and its group's
new statistics are shown, the difference *is* that record. So a group that was shown keeps showing
its old statistics until at least as many records have joined its family (it, and what has split off
it) as the largest level in it asks for. Then the difference of two snapshots is a sum over a valid
group of newcomers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tulle.condense.stream.arrivals import Arrivals, arrivals
from tulle.condense.stream.engines import Engine
from tulle.condense.stream.families import Renewed, renew
from tulle.condense.stream.groups import UNPUBLISHED, GroupArrays, Groups
from tulle.condense.stream.published import Published
from tulle.condense.synthesis import count_degenerate
from tulle.errors import PrivacyError
from tulle.moments import GroupMoments, Ints


class Change(NamedTuple):
    """What a snapshot shows beyond the one before (the first shows everything), and in all."""

    changed: int  # published groups that are shown anew
    fewest: int | None  # the fewest newcomers behind such a change
    held_back: int  # condensed records that are not shown yet
    fresh: int  # groups whose statistics were never shown before
    smallest: int | None  # members of the smallest group shown
    small: int  # groups shown with fewer members than a level in them: they were split
    verbatim: int  # groups shown of one record, of level 1
    degenerate: int  # groups shown whose records are all alike

    @classmethod
    def total(cls, parts: list[Change]) -> Change:
        """The changes of several classes together."""
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
    groups: Groups, published: Published | None, engine_of: Callable[[Groups], Engine]
) -> tuple[Published, Arrivals, Change]:
    """What the next snapshot shows; ``groups`` remember behind which group shown they are."""
    used = groups.view()
    if published is None:
        used.families[:] = UNPUBLISHED
        published = Published.nothing(groups.dimensions)
    newcomers, levels = _newcomers(used, published)
    ripe = newcomers >= levels
    renewed = renew(
        groups,
        published.taken(np.flatnonzero(ripe)),
        _numbered(ripe)[used.families],
        engine_of,
    )
    new = np.flatnonzero(used.families == UNPUBLISHED)
    kept = published.taken(np.flatnonzero(~ripe))
    used.families[:] = _numbered(~ripe)[used.families]
    used.families[renewed.rows] = len(kept) + renewed.places
    used.families[new] = len(kept) + len(renewed.published) + np.arange(len(new))
    first = groups.taken(new)
    arrived = arrivals(renewed.newcomers, renewed.published.shown, first)
    descent = [np.flatnonzero(~ripe), np.flatnonzero(ripe)[renewed.published.shown.view().families]]
    kept.extend(renewed.published)
    kept.extend(Published(first, first))
    kept.shown.view().families[:] = np.concatenate([*descent, np.full(len(new), UNPUBLISHED)])
    fresh = len(renewed.published) + len(new)
    change = _change(renewed, newcomers[~ripe], fresh, kept.shown.moments())
    if used.counts.sum() - kept.shown.view().counts.sum() != change.held_back:
        raise PrivacyError("the snapshot does not add up to the groups: nothing is released")
    return kept, arrived, change


def _newcomers(used: GroupArrays, published: Published) -> tuple[Ints, Ints]:
    """For each group shown, who joined its family since, and the largest level in it."""
    families = len(published)
    known = used.families >= 0
    totals = np.bincount(
        used.families[known], weights=used.counts[known], minlength=families
    ).astype(np.int64)
    levels = np.ones(families, dtype=np.int64)
    np.maximum.at(levels, used.families[known], used.levels[known])
    return totals - published.behind.view().counts, levels


def _numbered(chosen: np.ndarray) -> Ints:
    """The chosen ones as 0, 1, ..., all others as -1; one entry more serves family -1."""
    numbers = np.full(len(chosen) + 1, UNPUBLISHED)
    numbers[:-1][chosen] = np.arange(np.count_nonzero(chosen))
    return numbers


def _change(renewed: Renewed, held_back: Ints, fresh: int, shown: GroupMoments) -> Change:
    joined = renewed.newcomers.counts
    return Change(
        changed=len(joined),
        fewest=int(joined.min()) if len(joined) else None,
        held_back=int(held_back.sum()),
        fresh=fresh,
        smallest=int(shown.counts.min()) if len(shown.counts) else None,
        small=int((shown.counts < shown.levels).sum()),
        verbatim=int((shown.counts == 1).sum()),
        degenerate=count_degenerate(shown),
    )
