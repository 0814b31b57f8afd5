"""``RuleHider``: baskets in, baskets out, some rules gone."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from tulle.checks import check_choice, check_flag, check_int
from tulle.errors import DataError, ParameterError, PrivacyWarning
from tulle.random import RandomState, as_generator
from tulle.rules import verification
from tulle.rules.additions import best_adding
from tulle.rules.best import best
from tulle.rules.blocking import blocking
from tulle.rules.edits import Edits
from tulle.rules.impact import Impact
from tulle.rules.inputs import open_baskets, shuffled
from tulle.rules.measures import Mined, changed_share, side_effects
from tulle.rules.rule import RuleFile, as_itemsets, as_rules
from tulle.rules.sensitive import Sensitive, Thresholds, lookup
from tulle.rules.swa import swa
from tulle.rules.thresholds import confidence_if_any, exact_share, support_count
from tulle.rules.verykios import algo1a, algo1b, algo2a, algo2b
from tulle.rules.victims import iga, maxfia, minfia, naive, ra, rra
from tulle.transactions import Transactions

SIMPLE = {
    "iga": iga,
    "minfia": minfia,
    "maxfia": maxfia,
    "naive": naive,
    "rra": rra,
    "ra": ra,
    "algo1a": algo1a,
    "algo1b": algo1b,
    "algo2a": algo2a,
    "algo2b": algo2b,
    "blocking": blocking,
}
METHODS = ("best", "swa", *SIMPLE)


class RuleHider(BaseEstimator):
    """Hides sensitive association rules in baskets.

    Some items are taken out of some baskets, so that whoever mines the release at the thresholds
    does not find the rules; all other rules should stay. Before anything is given back, the rules
    are counted again in the release itself: if one is not hidden,
    :class:`~tulle.errors.PrivacyError` is raised.

    Parameters
    ----------
    rules
        Rules to hide: texts ``"bread, milk -> beer"``, :class:`Rule` objects, pairs
        (antecedent, consequent), a frame of :func:`association_rules`, or the path of a rules
        file (:func:`read_rules`).
    method
        ``"best"`` loses the fewest other rules; ``"swa"`` needs one pass and can stream;
        ``"iga"``, ``"minfia"``, ``"maxfia"``, ``"naive"``, ``"rra"``, ``"ra"``, ``"algo1a"``
        (adds items: makes false statements about people), ``"algo1b"``, ``"algo2a"``,
        ``"algo2b"`` of the literature; ``"blocking"`` makes cells unknown instead.
    min_support, min_confidence
        The receiver's mining thresholds: every rule ends below one of them. Shares such as 0.001
        or ``"0.1%"``; an int support is a count. Without ``min_confidence`` rules are hidden by
        support alone.
    margin
        Safety margin: rules end below (1 - margin) times a threshold.
    disclosure
        The literature's psi, in [0, 1], instead of thresholds: the share of the baskets that
        support a rule which may stay as they are. The thresholds then only serve to measure.
    window
        Baskets in a window (``swa``); None for one window.
    victim
        ``swa`` counts how rules share items in the ``"transaction"`` or in the ``"window"``.
    keep
        Itemsets that must stay frequent: lists of items, or texts ``"bread, milk"``.
    additions
        Whether ``best`` may also add items, which loses fewer rules but invents some: the release
        then makes false statements about people, as with ``algo1a``.
    shuffle
        Whether to give the baskets back in random order; an index of pandas is numbered anew.
    random_state
        Seed; None for the operating system's entropy.

    Attributes
    ----------
    report_ : list of dict
        For each rule: support (count) and confidence before and after, and the limits below one
        of which it is now (``confidence_limit`` is None where only support counts).
    hiding_failure_ : float or None
        Share of the sensitive rules that can still be mined at the thresholds. This and the next
        three are None if no ``min_support`` was given.
    misses_cost_ : float or None
        Share of the other rules (one item in the consequent) that were lost.
    misses_cost_avoidable_ : float or None
        The same among rules that do not contain a sensitive itemset.
    artifactual_ : float or None
        Share of the rules in the release that were not in the data.
    dif_ : float
        Item occurrences changed, as a share of all.
    n_transactions_touched_ : int
        Baskets in which anything changed.
    n_transactions_ : int
        Baskets.

    Notes
    -----
    **What may leave**: the release, and the measures. Not ``report_``: it names the rules and how
    strong they were. Which cells were edited is known to nobody: the edits are not kept. Not
    protected: baskets are released one for one, a person in them can be recognised; a receiver
    with lower thresholds finds hidden rules again.

    Examples
    --------
    >>> baskets = [["bread", "milk", "beer"]] * 4 + [["bread", "milk"], ["milk"], ["beer"]]
    >>> hider = RuleHider(
    ...     ["bread, milk -> beer"], min_support=3, min_confidence=0.7, random_state=0
    ... )
    >>> released = hider.fit_transform(baskets)
    >>> hider.report_[0]["confidence_before"], hider.report_[0]["confidence_after"]
    (0.8, 0.6)
    """

    def __init__(
        self,
        rules: Any,
        *,
        method: str = "best",
        min_support: float | int | str | None = None,
        min_confidence: float | str | None = None,
        margin: float = 0.0,
        disclosure: float | str | None = None,
        window: int | None = None,
        victim: str = "transaction",
        keep: Sequence[Sequence[Hashable] | str] = (),
        additions: bool = False,
        shuffle: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.rules = rules
        self.method = method
        self.min_support = min_support
        self.min_confidence = min_confidence
        self.margin = margin
        self.disclosure = disclosure
        self.window = window
        self.victim = victim
        self.keep = keep
        self.additions = additions
        self.shuffle = shuffle
        self.random_state = random_state

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """The baskets with the rules hidden, in the kind of container that came in.

        Parameters
        ----------
        X
            As for :func:`frequent_itemsets`. From a path, Transactions come back.
        y
            Ignored.
        """
        wishes = self._check_parameters()
        source = open_baskets(X)
        baskets = source.baskets
        if baskets.unknown is not None:
            raise DataError("some cells of the baskets are open: hide rules in what they came from")
        rng = as_generator(self.random_state)

        thresholds = self._thresholds()
        sensitive = Sensitive.find(baskets, wishes.rules, thresholds)
        before = self._mined(baskets)
        kept_sets = lookup(baskets, wishes.keep)
        adding = self.additions or self.method == "algo1a"
        verification.refuse_contradictions(sensitive, kept_sets, before, adding=adding)

        edits = self._hide(sensitive, before, kept_sets, rng)
        released = edits.apply(baskets)
        self.report_ = verification.verified(sensitive, released, thresholds, self.method)
        verification.require_kept(released, kept_sets, before, self.method)
        if len(edits.added_rows):
            warnings.warn(
                f"{self.method} adds items that people did not have: the release makes false "
                "statements",
                PrivacyWarning,
                stacklevel=2,
            )

        self._measure(sensitive, before, released)
        self.n_transactions_ = len(baskets)
        self.n_transactions_touched_ = edits.n_touched(baskets)
        result = source.restore(released)
        return shuffled(result, rng.permutation(len(baskets))) if self.shuffle else result

    def _check_parameters(self) -> RuleFile:
        name = type(self).__name__
        check_choice(name, "method", self.method, METHODS)
        check_choice(name, "victim", self.victim, ("transaction", "window"))
        check_flag(name, "additions", self.additions)
        check_flag(name, "shuffle", self.shuffle)
        if self.additions and self.method != "best":
            raise ParameterError(f"additions of {name} are for method='best'.")
        exact_share(name, "margin", self.margin)
        if self.window is not None:
            check_int(name, "window", self.window, 1)
        if self.disclosure is not None:
            exact_share(name, "disclosure", self.disclosure)
        confidence_if_any(name, self.min_confidence)
        if self.min_support is not None:
            support_count(name, self.min_support, 1)
        wishes = as_rules(self.rules)
        keep = [*wishes.keep, *as_itemsets(self.keep)]
        if self.min_support is None and (self.method == "best" or keep):
            raise ParameterError(
                f"{name} needs min_support to know which rules should stay; with disclosure alone, "
                "choose another method than 'best' and keep no itemset."
            )
        return RuleFile(wishes.rules, keep)

    def _thresholds(self) -> Thresholds:
        return Thresholds(
            type(self).__name__,
            self.min_support,
            self.min_confidence,
            self.margin,
            self.disclosure,
        )

    def _mined(self, baskets: Transactions) -> Mined | None:
        if self.min_support is None:
            return None
        name = type(self).__name__
        confidence = confidence_if_any(name, self.min_confidence)
        return Mined.of(baskets, support_count(name, self.min_support, len(baskets)), confidence)

    def _hide(
        self,
        sensitive: Sensitive,
        before: Mined | None,
        kept_sets: list[tuple[int, ...]],
        rng: np.random.Generator,
    ) -> Edits:
        if self.method == "swa":
            return swa(sensitive, rng, window=self.window, victim=self.victim)
        if self.method == "best":
            assert before is not None
            nodes = verification.nodes_of(before.rules.itemsets, kept_sets)
            impact = Impact(
                sensitive.baskets,
                before.rules,
                before.minimum,
                before.confidence,
                before.sensitive(sensitive),
                nodes,
            )
            if self.additions:
                return best_adding(sensitive, before, impact, kept_sets, rng)
            return best(sensitive, impact, rng)
        return SIMPLE[self.method](sensitive, rng)

    def _measure(self, sensitive: Sensitive, before: Mined | None, released: Transactions) -> None:
        self.dif_ = changed_share(sensitive.baskets, released)
        self.hiding_failure_: float | None = None
        self.misses_cost_: float | None = None
        self.misses_cost_avoidable_: float | None = None
        self.artifactual_: float | None = None
        if before is None:
            return
        after = Mined.of(released, before.minimum, before.confidence)
        effects = side_effects(before, after, sensitive)
        self.hiding_failure_ = verification.failure(self.report_, before.minimum, before.confidence)
        self.misses_cost_ = effects["misses_cost"]
        self.misses_cost_avoidable_ = effects["misses_cost_avoidable"]
        self.artifactual_ = effects["artifactual"]
