"""The groups of several condensers, seen as one."""

from __future__ import annotations

from typing import Any

import numpy as np

from tulle.condense.levels import LevelSummary, join_summaries
from tulle.condense.statistics import information_loss
from tulle.moments import Floats, GroupMoments, Ints


class Aggregated:
    """Fitted attributes over the parts in ``condensers_``, in the scales of the whole table."""

    condensers_: list[Any]
    _scales: Floats  # of the table; a stream has its own

    @property
    def counts_(self) -> Ints:
        return np.concatenate([part.counts_ for part in self.condensers_])

    @property
    def levels_(self) -> Ints:
        return np.concatenate([part.levels_ for part in self.condensers_])

    @property
    def means_(self) -> Floats:
        return np.concatenate([part.means_[:, : self._width] for part in self.condensers_])

    @property
    def covariances_(self) -> Floats:
        width = self._width
        return np.concatenate([part.covariances_[:, :width, :width] for part in self.condensers_])

    @property
    def information_loss_(self) -> float:
        """100 SSQ / SST on the columns as standardised over the whole table, as the parts are."""
        width = self._width
        parts = [part.moments_ for part in self.condensers_]
        means = np.concatenate([part.means[:, :width] for part in parts])
        scatters = np.concatenate([part.scatters[:, :width, :width] for part in parts])
        levels = self.levels_
        return information_loss(GroupMoments(self.counts_, means, scatters, levels, levels))

    @property
    def level_summary_(self) -> list[LevelSummary]:
        return join_summaries(*(part.level_summary_ for part in self.condensers_))

    @property
    def n_verbatim_(self) -> int:
        return self._total("n_verbatim_")

    @property
    def n_degenerate_(self) -> int:
        return self._total("n_degenerate_")

    @property
    def n_singular_(self) -> int:
        return sum(part.n_singular_ for part in self.condensers_)

    @property
    def _width(self) -> int | None:
        """How many dimensions to show: a pool has its labels in further ones."""
        return len(self._scales) if hasattr(self, "_scales") else None

    def _total(self, name: str) -> int:
        return sum(int(getattr(part, name, 0)) for part in self.condensers_)
