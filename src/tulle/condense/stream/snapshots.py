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
from tulle.errors import PrivacyError
from tulle.moments import Ints


class Change(NamedTuple):
    """What a snapshot shows beyond the one before; the first shows everything."""

    changed: int  # published groups that are shown anew
    fewest: int | None  # the fewest newcomers behind such a change
    held_back: int  # condensed records that are not shown yet
    fresh: int  # groups whose statistics were never shown before

    @classmethod
    def total(cls, parts: list[Change]) -> Change:
        """The changes of several classes together."""
        fewest = [part.fewest for part in parts if part.fewest is not None]
        return cls(
            sum(part.changed for part in parts),
            min(fewest, default=None),
            sum(part.held_back for part in parts),
            sum(part.fresh for part in parts),
        )


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
    change = _change(renewed, newcomers[~ripe], fresh=len(renewed.published) + len(new))
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


def _change(renewed: Renewed, held_back: Ints, fresh: int) -> Change:
    joined = renewed.newcomers.counts
    fewest = int(joined.min()) if len(joined) else None
    return Change(len(joined), fewest, int(held_back.sum()), fresh)
