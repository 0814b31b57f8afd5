"""``tulle hide --share rules``: baskets and secret rules in, the other rules out.

As with hidden baskets, the manifest counts the secret rules and never names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from tulle._attacks.result import AttackResult
from tulle._commands._baskets import open_file
from tulle._commands.mine import flat
from tulle._plurals import counted
from tulle._types import FilePath
from tulle.auditing.audit import Audit
from tulle.errors import ParameterError
from tulle.io._formats import Format, format_of
from tulle.rules.rule import Rule, RuleFile

if TYPE_CHECKING:
    from tulle.rules.patterns import PatternSanitizer

HELD = "no secret itemset is shared, and none can be inferred from what is shared"
LIMITS = (
    "Supports and confidences of the shared rules are exact: of two items that are each in nearly "
    "all baskets they prove that the pair is frequent, whatever is left out.",
    "A receiver who knows the usual strength of a rule may notice that it is missing.",
)
_OF_BASKETS = ("method", "margin", "disclosure", "window", "victim", "shuffle")


class Shared(NamedTuple):
    frame: pl.DataFrame
    summary: dict[str, Any]
    audit: Audit
    notes: list[str]


def shared_rules(
    source: FilePath, output: FilePath, wishes: RuleFile, options: Any, command: str
) -> Shared:
    """Mine the baskets, and return the rules that do not give the secret ones away."""
    for name in _OF_BASKETS:
        if name in options.words:
            raise ParameterError("is for --share baskets", subject=options.word(name))
    if options.min_support is None or options.min_confidence is None:
        raise ParameterError("--share rules needs --min-support and --min-confidence")
    if format_of(output) is Format.SQL:
        raise ParameterError("the output must be a file, such as .csv or .parquet")

    from tulle.rules.patterns import PatternSanitizer

    baskets = open_file(source, options.basket, options.item).baskets
    # not sharing a rule at all meets every threshold that it may have of its own
    secret = [Rule(rule.antecedent, rule.consequent) for rule in wishes.rules]
    sanitizer = PatternSanitizer(
        secret, min_support=options.min_support, min_confidence=options.min_confidence
    )
    frame = sanitizer.fit_transform(baskets)
    ordered = frame.sort("confidence", "count", descending=True, maintain_order=True)
    summary = {
        "baskets": len(baskets),
        "rules_secret": len(wishes.rules),
        "itemsets_found": sanitizer.n_itemsets_,
        "itemsets_shared": sanitizer.n_itemsets_shared_,
        "rules_found": sanitizer.n_rules_,
        "rules_shared": sanitizer.n_rules_shared_,
        "side_effect_factor": sanitizer.side_effect_factor_,
        "recovery_factor": sanitizer.recovery_factor_,
        "proved_by_single_items": sanitizer.n_proved_by_items_,
    }
    audit = _audit_of(sanitizer, summary, command)
    return Shared(flat(ordered, output), summary, audit, _notes(wishes, frame))


def _notes(wishes: RuleFile, shared: pl.DataFrame) -> list[str]:
    """Say what lines of the rules file mean where rules are shared instead of baskets."""
    notes = []
    own = sum(rule.has_thresholds or rule.disclosure is not None for rule in wishes.rules)
    if own:
        notes.append(
            f"{counted(own, 'rule', 'have')} thresholds in the file, for baskets: what is "
            "not shared is below all of them"
        )
    if wishes.keep:
        sides = zip(shared["antecedent"].to_list(), shared["consequent"].to_list())
        shown = [{*map(str, left), *map(str, right)} for left, right in sides]
        seen = sum(any({*map(str, kept)} <= one for one in shown) for kept in wishes.keep)
        notes.append(
            f"{seen} of {counted(len(wishes.keep), 'itemset')} to keep can be read from the "
            "shared rules"
        )
    return notes


def _audit_of(sanitizer: PatternSanitizer, summary: dict[str, Any], command: str) -> Audit:
    secret = summary["rules_secret"]
    attack = AttackResult(
        "pattern_inference",
        secret,
        round(sanitizer.recovery_factor_ * secret),
        0,
        story="A reader of the shared rules concludes that a set is frequent from a larger set, or "
        "from all its subsets of one size, and again from what was concluded. Right if a secret "
        "set is among them.",
    )
    return Audit(
        {
            "title": "Shared rules",
            "summary": f"{counted(summary['rules_shared'], 'rule', 'is')} shared of "
            f"{summary['rules_found']:,}; {counted(secret, 'secret rule', 'stays')} out.",
            "guarantee": {
                "text": "Inferred from the finished release before it was written.",
                "rows": [{"name": HELD, "asked": secret, "found": secret, "holds": True}],
            },
            "k": 10,
            "metrics": {k: v for k, v in summary.items() if isinstance(v, float)},
            # every secret rule was tried, and not a sample of them: the share is what it is
            "attacks": {attack.name: {**attack.to_dict(), "grade": "grave" if attack.risk else ""}},
            "sections": [],
            "limits": list(LIMITS),
            "command": command,
            "untried": "",
        }
    )
