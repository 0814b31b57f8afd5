"""``RuleHider``: baskets in, baskets out, some rules gone."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any, TypeVar, overload

import numpy as np
from sklearn.base import BaseEstimator

from tulle._checks import check_choice, check_flag, check_int
from tulle._choices import HIDING_METHODS, INTERVALS, LOOKAHEADS, VICTIMS
from tulle._random import RandomState, as_generator
from tulle._types import FilePath, Ints
from tulle.errors import DataError, ParameterError, PrivacyError, PrivacyWarning
from tulle.rules._blocking import blocking, refuse_middles
from tulle.rules._classic import CLASSICAL, algo1a, swa
from tulle.rules._search import Impact, best
from tulle.rules._sensitive import (
    Codes,
    Edits,
    HidingLimit,
    MinedRules,
    SensitiveRules,
    Thresholds,
    changed_share,
    count_sets,
    drawn_margins,
    is_hidden,
    lookup,
    side_effects,
)
from tulle.rules.containers import open_baskets, shuffled
from tulle.rules.mine import Itemsets
from tulle.rules.rule import (
    Rule,
    RuleFile,
    as_itemsets,
    as_rules,
    confidence_if_any,
    exact_share,
    support_count,
)
from tulle.transactions import Transactions

# Counting again, in the release itself, before anything is given back.

Report = list[dict[str, Any]]
Baskets = TypeVar("Baskets")  # what comes back is what came in
Pair = tuple[int, int]  # support of a rule, support of its antecedent


def verified(
    sensitive: SensitiveRules, released: Transactions, thresholds: Thresholds, method: str
) -> Report:
    """Return the report of each rule; raise an error if any is not hidden in the release.

    Open cells do not count: supports are those of baskets that surely hold the items. Nor do
    baskets of which nothing is left: many a file cannot hold them, and many a miner skips them.
    """
    before, after = (
        list(zip(count_sets(baskets, sensitive.whole), count_sets(baskets, sensitive.antecedent)))
        for baskets in (sensitive.baskets, released)
    )
    filled = released.n_filled
    limits = [thresholds.of(rule, n, filled) for rule, (n, _) in zip(sensitive.rules, before)]
    return checked(sensitive.rules, before, after, limits, len(released), method)


def checked(
    rules: Sequence[Rule],
    before: Sequence[Pair],
    after: Sequence[Pair],
    limits: Sequence[HidingLimit],
    n_baskets: int,
    method: str,
) -> Report:
    """Report counts (support, antecedent's support); raise an error if a rule is visible."""
    seen = [
        str(rule)
        for rule, counts, limit in zip(rules, after, limits)
        if not is_hidden(*counts, limit)
    ]
    if seen:
        raise PrivacyError(
            f"method '{method}' left {len(seen)} of {len(rules)} rules above their "
            f"thresholds ({'; '.join(seen)}): nothing is released; take another method "
            "(best)"
        )
    counted = zip(rules, before, after, limits)
    return [_line(str(rule), b, a, limit, n_baskets) for rule, b, a, limit in counted]


def failure(report: Report, minimum: int, sure: Fraction) -> float:
    """Compute the share of the rules that could be mined before which still can."""
    before = sum(minable(line, "before", minimum, sure) for line in report)
    after = sum(minable(line, "after", minimum, sure) for line in report)
    return after / before if before else 0.0


def refuse_contradictions(
    sensitive: SensitiveRules, keep: Sequence[Codes], mined: MinedRules | None, *, adding: bool
) -> None:
    """Explain why a rule cannot be hidden while an itemset that contains it stays frequent.

    Where items may be added, confidence can fall and the itemset stay as it is.
    """
    for items in keep:
        assert mined is not None
        name = _named(sensitive.baskets, items)
        support = len(sensitive.baskets.rows_with(items))
        if support < mined.minimum:
            raise DataError(
                f"{name} must stay frequent but occurs in only {support} baskets, fewer than "
                f"min_support ({mined.minimum})"
            )
        for r, rule in enumerate(sensitive.rules):
            if adding and sensitive.confidence[r] is not None:
                continue
            most, sure = int(sensitive.limit[r]) - 1, sensitive.confidence[r]
            if sure is not None:  # confidence is enough
                antecedent = len(sensitive.baskets.rows_with(sensitive.antecedent[r]))
                most = max(most, (antecedent * sure.numerator - 1) // sure.denominator)
            if set(sensitive.whole[r]) <= set(items) and most < mined.minimum:
                raise DataError(
                    f"these constraints conflict: to hide '{rule}', its items may occur together "
                    f"in at most {most} baskets, but {name}, which contains them, must stay in at "
                    f"least {mined.minimum}; give up one of the two"
                )


def require_kept(
    released: Transactions, keep: Sequence[Codes], mined: MinedRules | None, method: str
) -> None:
    if not keep or mined is None:
        return
    counts = count_sets(released, keep)
    lost = [_named(released, items) for items, n in zip(keep, counts) if n < mined.minimum]
    if lost:
        hint = "" if method == "best" else "; the method 'best' takes them into account"
        raise DataError(f"{', '.join(lost)} did not stay frequent: nothing is released{hint}")


def nodes_of(itemsets: Itemsets, wanted: Sequence[Codes]) -> Ints:
    indptr, codes = itemsets.rows
    owner = np.repeat(np.arange(len(itemsets)), np.diff(indptr))
    nodes = []
    for items in wanted:
        held = np.bincount(owner[np.isin(codes, items)], minlength=len(itemsets))
        nodes.append(int(np.flatnonzero((held == len(set(items))) & (itemsets.sizes == held))[0]))
    return np.array(nodes, dtype=np.int64)


def _line(
    rule: str, before: Pair, after: Pair, limit: HidingLimit, n_baskets: int
) -> dict[str, Any]:
    return {
        "rule": rule,
        "count_before": before[0],
        "count_after": after[0],
        "support_before": before[0] / n_baskets,
        "support_after": after[0] / n_baskets,
        "confidence_before": before[0] / before[1],
        "confidence_after": after[0] / after[1] if after[1] else 0.0,
        "antecedent_before": before[1],
        "antecedent_after": after[1],
        "support_limit": limit.support / n_baskets,
        "confidence_limit": None if limit.confidence is None else float(limit.confidence),
    }


def minable(line: dict[str, Any], when: str, minimum: int, sure: Fraction) -> bool:
    """Return whether a rule of a report is found at thresholds, "before" or "after"."""
    count, antecedent = line[f"count_{when}"], line[f"antecedent_{when}"]
    return bool(count >= minimum and count * sure.denominator >= sure.numerator * antecedent)


def _named(baskets: Transactions, items: Codes) -> str:
    return "{" + ", ".join(str(baskets.names[item]) for item in items) + "}"


SIMPLE = {**CLASSICAL, "algo1a": algo1a}


class RuleHider(BaseEstimator):
    """Hide sensitive association rules in baskets.

    Some items are taken out of some baskets, so that anyone who mines the release at the thresholds
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
        Safety margin: rules end below (1 - margin) times a threshold. ``"random"`` draws one for
        each rule, up to a tenth, or ten baskets where that is more. A share is the same for all
        rules: they then stop at one level, where whoever finds it finds them. It counts for
        thresholds, not for ``disclosure``.
    disclosure
        The literature's psi, in [0, 1], instead of thresholds: the share of the baskets that
        support a rule which may stay as they are. The thresholds then only serve to measure.
    window
        Baskets in a window (``swa``); None for one window.
    victim
        ``swa`` counts how rules share items in the ``"transaction"`` or in the ``"window"``.
    lookahead
        Whether ``swa`` spares a basket in which the victim of an earlier rule already broke this
        one: ``"always"``, or as the paper prints it (``"printed"``): only for rules with psi = 0.
    interval
        ``blocking`` makes supports and confidences uncertain. A rule counts as hidden when the
        ``"lower"`` end of one of them is below its threshold, or, stricter and as the paper has
        it, the ``"middle"``, too: where only the lower end is, a coin finds most rules again.
    keep
        Itemsets that must stay frequent: lists of items, or texts ``"bread, milk"``.
    shuffle
        Whether to give the baskets back in random order; a pandas index is renumbered.
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
    strong they were. Nobody knows which cells were edited: the edits are not kept. Not
    protected: baskets are released one for one, a person in them can be recognised; a receiver
    with lower thresholds finds hidden rules again.

    Examples
    --------
    >>> baskets = [["bread", "milk", "beer"]] * 4 + [["bread", "milk"], ["milk"], ["beer"]]
    >>> hider = RuleHider(
    ...     ["bread, milk -> beer"], min_support=3, min_confidence=0.7, margin=0, random_state=0
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
        margin: float | str = "random",
        disclosure: float | str | None = None,
        window: int | None = None,
        victim: str = "transaction",
        lookahead: str = "always",
        interval: str = "middle",
        keep: Sequence[Sequence[Hashable] | str] = (),
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
        self.lookahead = lookahead
        self.interval = interval
        self.keep = keep
        self.shuffle = shuffle
        self.random_state = random_state

    @overload
    def fit_transform(self, X: FilePath, y: Any = None) -> Transactions: ...

    @overload
    def fit_transform(self, X: Baskets, y: Any = None) -> Baskets: ...

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Hide the rules and return the baskets in the kind of container that came in.

        Parameters
        ----------
        X : baskets
            As for :func:`frequent_itemsets`. For a path, :class:`Transactions` are returned.
        y : None
            Ignored.

        Returns
        -------
        baskets
            The release, row for row (in random order with ``shuffle``).

        Raises
        ------
        PrivacyError
            If a rule cannot be hidden; nothing is returned.
        """
        wishes = self._check_parameters()
        source = open_baskets(X)
        baskets = source.baskets
        if baskets.unknown is not None:
            raise DataError(
                "these baskets contain blocked (unknown) cells: apply RuleHider to the original "
                "baskets"
            )
        rng = as_generator(self.random_state)

        name = type(self).__name__
        margins = drawn_margins(name, wishes.rules, self.margin, rng)
        asked = self.min_support, self.min_confidence, self.disclosure
        thresholds = Thresholds(name, *asked, margins)
        sensitive = SensitiveRules.find(baskets, wishes.rules, thresholds)
        before = None
        if self.min_support is not None:
            minimum = support_count(name, self.min_support, len(baskets))
            before = MinedRules.of(baskets, minimum, confidence_if_any(name, self.min_confidence))
        kept_sets = lookup(baskets, wishes.keep)
        refuse_contradictions(sensitive, kept_sets, before, adding=self.method == "algo1a")

        edits = self._hide(sensitive, before, kept_sets, rng)
        released = edits.apply(baskets)
        self.report_ = verified(sensitive, released, thresholds, self.method)
        if self.method == "blocking" and self.interval == "middle":
            refuse_middles(sensitive, released)
        require_kept(released, kept_sets, before, self.method)
        if len(edits.added_rows):
            warnings.warn(
                f"{self.method} adds items that people did not have: the release contains false "
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
        check_choice(name, "method", self.method, HIDING_METHODS)
        check_choice(name, "victim", self.victim, VICTIMS)
        check_choice(name, "lookahead", self.lookahead, LOOKAHEADS)
        check_choice(name, "interval", self.interval, INTERVALS)
        check_flag(name, "shuffle", self.shuffle)
        if self.margin != "random":
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
                "choose a method other than 'best' and keep no itemset."
            )
        return RuleFile(wishes.rules, keep)

    def _hide(
        self,
        sensitive: SensitiveRules,
        before: MinedRules | None,
        kept_sets: list[tuple[int, ...]],
        rng: np.random.Generator,
    ) -> Edits:
        if self.method == "swa":
            return swa(
                sensitive, rng, window=self.window, victim=self.victim, lookahead=self.lookahead
            )
        if self.method == "best":
            assert before is not None
            nodes = nodes_of(before.rules.itemsets, kept_sets)
            impact = Impact(sensitive.baskets, before, before.sensitive(sensitive), nodes)
            return best(sensitive, impact, rng)
        if self.method == "blocking":
            return blocking(sensitive, rng, interval=self.interval)
        return SIMPLE[self.method](sensitive, rng)

    def _measure(
        self, sensitive: SensitiveRules, before: MinedRules | None, released: Transactions
    ) -> None:
        self.dif_ = changed_share(sensitive.baskets, released)
        self.hiding_failure_: float | None = None
        self.misses_cost_: float | None = None
        self.misses_cost_avoidable_: float | None = None
        self.artifactual_: float | None = None
        if before is None:
            return
        after = MinedRules.of(released, before.minimum, before.confidence)
        effects = side_effects(before, after, sensitive)
        self.hiding_failure_ = failure(self.report_, before.minimum, before.confidence)
        self.misses_cost_ = effects["misses_cost"]
        self.misses_cost_avoidable_ = effects["misses_cost_avoidable"]
        self.artifactual_ = effects["artifactual"]
