"""``tulle hide``: baskets and secret rules in, baskets without the rules out.

The manifest travels with the release, so it counts the rules and never names them. The summary
and the report, which name them, are the owner's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tulle._attacks.result import AttackFigures
from tulle._attacks.rules import removed_items, rule_recovery, rule_steps
from tulle._checks import check_choice, check_flag, check_int
from tulle._choices import LOOKAHEADS, SHARED, VICTIMS
from tulle._commands import share
from tulle._commands._baskets import filled, list_blocks, open_file, put_baskets, put_blocks
from tulle._commands._decision import Done, Job, decided, public_verdict
from tulle._commands._options import Options, resolve
from tulle._commands._sources import check_files, source_entry
from tulle._plurals import counted
from tulle._progress import bar
from tulle._random import as_generator, seed_policy
from tulle._report.model import Chart, Given, Guarantee, Judgement, Section
from tulle._types import FilePath
from tulle.auditing.audit import Audit
from tulle.errors import DataError, ParameterError
from tulle.io._formats import Format, format_of
from tulle.io.write import put_table
from tulle.releases import Manifest
from tulle.rules._sensitive import Thresholds, drawn_margins
from tulle.rules.containers import is_table_name, shuffled
from tulle.rules.mine import SCENARIOS, choose_rules
from tulle.rules.rule import Rule, RuleFile, confidence_if_any, read_rules, support_count
from tulle.transactions import Transactions

if TYPE_CHECKING:  # loaded where they are used: a wrong file name is answered at once
    from tulle.rules.hider import Report, RuleHider

# The report of ``tulle hide``: what hiding cost, and for the owner each rule before and after.

HELD = "every rule is below its threshold in the release"
LIMITS = (
    "A receiver who mines with lower thresholds finds the hidden rules again: a larger margin "
    "pushes them further below the thresholds.",
    "Baskets are released one for one: a person in them can be recognised by what they bought.",
    "A receiver who knows the usual strength of a hidden rule may notice that it is missing.",
)


def recovery(
    original: Transactions | None,
    released: Transactions,
    rules: Sequence[Rule],
    options: Hiding,
    seed: int | None,
) -> dict[str, AttackFigures]:
    """Run the attacks, where mining thresholds were given and every cell is known.

    ``original`` are the baskets before, if they are in the order of the release.
    """
    if released.unknown is not None or options.min_support is None:
        return {}
    support = support_count("hide", options.min_support, len(released))
    confidence = confidence_if_any("hide", options.min_confidence)
    attacks = [
        rule_recovery(released, rules, support, confidence, as_generator(seed)),
        rule_steps(released, rules, support, confidence),
    ]
    if original is not None:
        removed = removed_items(original, released, rules, as_generator(seed))
        attacks += [] if removed is None else [removed]
    # saying that one works would say where to look
    return {found.name: {**found.to_dict(), "owner_only": True} for found in attacks}


_UNMEASURED: Judgement = {
    "level": "undecided",
    "reason": "Not decided: how many other rules were lost was not measured.",
    "next": "Mine both files with the same thresholds (tulle mine), and compare the rules.",
    "details": [],
}


def _judged(summary: dict[str, Any]) -> Given:
    """Judge rules that a miner still finds, and a release of which the cost is not known."""
    use: Given = {} if summary.get("misses_cost") is not None else {"use": _UNMEASURED}
    found = summary["rules_still_found"]
    if not found:
        return use
    hidden = summary["rules_hidden"] + summary["rules_below_already"]
    reason = (
        f"{found} of {counted(found + hidden, 'rule')} can still be mined at the thresholds: what "
        "may stay of each (disclosure, or thresholds of its own) is more than that."
    )
    after = (
        "Lower the disclosure or the rule's own thresholds, or drop them: the common thresholds "
        "then count for every rule."
    )
    return {**use, "privacy": {"level": "bad", "reason": reason, "next": after, "details": []}}


def _rules_section(rules: Report) -> Section:
    chart: Chart = {
        "type": "chart",
        "chart": "before_after",
        "title": "Sensitive rules before and after",
        "rows": [
            {
                "name": line["rule"],
                "measure": measure,
                **{when: line[f"{measure}_{when}"] for when in ("before", "after", "limit")},
            }
            for line in rules
            for measure in ("support", "confidence")
        ],
    }
    return {
        "id": "rules",
        "title": "The hidden rules",
        "text": "Each rule ends below one of its marks.",
        "blocks": [chart],
        "owner_only": True,
    }


@dataclass(frozen=True)
class Hiding(Options):
    """The options of ``tulle hide``."""

    method: str | None = None  # best; streamed: swa
    min_support: float | int | str | None = None
    min_confidence: float | str | None = None
    margin: float | str = "random"
    disclosure: float | str | None = None
    window: int | None = None
    victim: str | None = None  # of swa: transaction
    lookahead: str | None = None  # of swa: always
    interval: str | None = None  # of blocking: middle
    support_of: str = "rule"  # what the minimum support is of when rules are chosen
    basket: str | None = None
    item: str | None = None
    shuffle: bool = False
    keep: tuple[str, ...] | list[str] = ()


_ONE_FOR_ONE = (
    "Baskets are released one for one: agree with the recipient not to look for people in them."
)
_BELOW = "Every rule that was to be hidden is below its thresholds, counted in the release."
_MEASURES = ("support", "confidence")
_OF_METHOD = {"swa": ("window", "victim", "lookahead"), "blocking": ("interval",)}
_PARAMETERS = ("method", "min_support", "min_confidence", "margin", "disclosure")


def hide(
    source: FilePath,
    output: FilePath,
    *,
    rules: FilePath | None = None,
    choose: str | None = None,
    share: str = "baskets",
    stream: bool = False,
    policy: FilePath | None = None,
    report: FilePath | None = None,
    accept_risk: str | None = None,
    seed: int | None = None,
    sign_key: FilePath | None = None,
    command: str = "",
    force: bool = False,
    **given: Any,
) -> Done:
    """Hide the rules of a rules file in baskets and write the release.

    ``choose`` takes rules to hide by a scenario of paper 002 instead: ``S2``, or ``S2:20`` for
    another number than 20.
    Options left at None follow the policy, else the defaults. With ``share="rules"`` the rules
    that may be known leave instead of the baskets. With ``stream`` the file goes
    through SWA window by window in bounded memory. A rule that is above its own limit is an error;
    one whose own limit leaves it to a miner at the common thresholds makes the verdict bad.
    """
    job = Job.opened(
        output, {"INPUT": source, "--rules": rules, "--policy": policy},
        report=report, sign_key=sign_key, accept_risk=accept_risk, command=command, force=force,
    )  # fmt: skip
    chosen = resolve("hide", Hiding(), policy, given)
    check_choice("hide", "share", share, SHARED)
    if share == "rules" and stream:
        raise ParameterError("--stream is for --share baskets: rules are mined in memory")
    with chosen.naming():
        options = chosen if share == "rules" else _settled(chosen, stream=stream)
        wishes = _wishes(source, rules, choose, options, seed)
        run = _HideRun(source, job, wishes, options, seed)
        made = run.rules() if share == "rules" else run.streamed() if stream else run.whole()
    summary, rows, notes, page = made
    page = page.extended(context=dict(chosen.policy.context))
    job.save_report(page, released=True)
    return Done(summary, {"rules": rows}, notes, page.verdict, page)


def preview(
    source: FilePath,
    *,
    rules: FilePath | None = None,
    choose: str | None = None,
    policy: FilePath | None = None,
    seed: int | None = None,
    **given: Any,
) -> list[dict[str, Any]]:
    """Return what hiding each rule alone would cost, and all of them; nothing is written.

    For the owner: it names the rules.
    """
    check_files({"INPUT": source, "--rules": rules, "--policy": policy}, force=False)
    chosen = resolve("hide", Hiding(), policy, given)
    with chosen.naming():
        options = _settled(chosen, stream=False)
        wishes = _wishes(source, rules, choose, options, seed)
        baskets = open_file(source, options.basket, options.item).baskets
        rows = []
        with bar("Trying each rule", len(wishes.rules) + 1) as advance:
            for rule in wishes.rules:
                rows.append(_cost(str(rule), [rule], wishes, options, baskets, seed))
                advance()
            rows.append(_cost("all of them", wishes.rules, wishes, options, baskets, seed))
    return rows


def _cost(
    name: str,
    rules: Sequence[Rule],
    wishes: RuleFile,
    options: Hiding,
    baskets: Transactions,
    seed: int | None,
) -> dict[str, Any]:
    hider = _hider(rules, wishes, options, random_state=seed)
    hider.fit_transform(baskets)
    first = hider.report_[0]
    alone = len(rules) == 1
    return {
        "rule": name,
        "support": first["support_before"] if alone else None,
        "confidence": first["confidence_before"] if alone else None,
        "baskets_touched": hider.n_transactions_touched_,
        "cells_changed": hider.dif_,
        "other_rules_lost": hider.misses_cost_,
        "of_them_avoidable": hider.misses_cost_avoidable_,
    }


def _hider(rules: Sequence[Rule], wishes: RuleFile, options: Hiding, **more: Any) -> RuleHider:
    from tulle.rules.hider import RuleHider

    names = [*_PARAMETERS, *_OF_METHOD.get(str(options.method), ())]
    return RuleHider(
        rules, **{name: getattr(options, name) for name in names}, keep=wishes.keep, **more
    )


_Made = tuple[dict[str, Any], list[dict[str, Any]], list[str], Audit]  # summary, rules, notes


class _HideRun(NamedTuple):
    """One run: what is read, what is asked, where it goes."""

    source: FilePath
    job: Job
    wishes: RuleFile
    options: Hiding
    seed: int | None

    def whole(self) -> _Made:
        options, wishes = self.options, self.wishes
        opened = open_file(self.source, options.basket, options.item, tuple(options.keep))
        as_table = is_table_name(self.job.output) and opened.restore is not None
        rng = as_generator(self.seed)
        mixed = options.shuffle and not as_table
        hider = _hider(wishes.rules, wishes, options, shuffle=mixed, random_state=rng)
        released = hider.fit_transform(opened.baskets)
        frame = None
        if as_table and opened.restore is not None:
            frame = opened.restore(released)
            if options.shuffle:
                frame = shuffled(frame, rng.permutation(len(frame)))
        report = hider.report_
        outcome = _outcome(report, options, wishes.rules, len(released))
        summary = _summary(hider, released, outcome)
        before = None if mixed else opened.baskets
        attacks = recovery(before, released, wishes.rules, options, self.seed)
        entry = source_entry(self.source, summary["baskets"])
        page = self._page(summary, report, attacks)
        decided(page, self.job.accepted)
        with self.job.releasing() as draft:
            put_baskets(released, frame, draft.file, self.job.output)
            draft.finish(self._manifest(entry, summary, _public(page)))
        return (summary, _rows(report), _notes(options, summary), page)

    def rules(self) -> _Made:
        """Share rules instead of baskets."""
        made = share.shared_rules(
            self.source, self.job.output, self.wishes, self.options, self.job.command
        )
        entry = source_entry(self.source, made.summary["baskets"])
        verdict = _public(made.audit, f"Verified: {share.HELD}.", share.LIMITS[0])
        with self.job.releasing() as draft:
            put_table(made.frame, draft.file, self.job.output)
            draft.finish(self._manifest(entry, made.summary, verdict, share.HELD))
        return (made.summary, [], made.notes, made.audit)

    def streamed(self) -> _Made:
        """Hide window by window, in bounded memory."""
        from tulle.rules._stream import HidingStream

        options = self.options
        _check_stream(self.source, self.job.output, self.wishes, options)
        rng = as_generator(self.seed)
        margins = drawn_margins("hide", self.wishes.rules, options.margin, rng)
        names = ("min_support", "min_confidence", "disclosure")
        asked = {name: getattr(options, name) for name in names}
        thresholds = Thresholds("hide", **asked, margins=margins)
        window = check_int("hide", "window", options.window, 1)
        victim = check_choice("hide", "victim", options.victim, VICTIMS)
        check_choice("hide", "lookahead", options.lookahead, LOOKAHEADS)
        entry = source_entry(self.source, 0)  # before it can change
        stream = HidingStream(
            lambda size: list_blocks(self.source, size), self.wishes.rules, thresholds,
            window=window, victim=victim, lookahead=str(options.lookahead), random_state=rng,
        )  # fmt: skip
        with self.job.releasing() as draft:
            put_blocks(stream.released(), draft.file, self.source, self.job.output)
            report, counts, failed = stream.result()
            baskets = counts["baskets"]
            outcome = _outcome(report, options, self.wishes.rules, baskets)
            summary = {**counts, **outcome, "hiding_failure": failed, "dif": counts["dif"]}
            page = self._page(summary, report)
            decided(page, self.job.accepted)
            draft.finish(self._manifest(entry | {"records": baskets}, summary, _public(page)))
        notes = ["streamed: the cost in other rules was not measured"]
        return (summary, _rows(report), notes, page)

    def _page(self, summary: dict[str, Any], report: Report, attacks: Any = None) -> Audit:
        """Make the report of what was verified, and of the attacks."""
        hidden, held = summary["rules_hidden"], _held(self.wishes, self.options)
        untried = "give --min-support and --min-confidence, which a recovery of the rules needs"
        if self.options.method == "blocking":
            untried = (
                "fill the unknown cells in by the toss of a coin, mine that, and see whether the "
                "rules come back: no attack is made on blocked cells"
            )
        elif self.options.min_support is not None:
            untried = "hide the rules of a part of the baskets without --stream, which is attacked"
        guarantee: Guarantee = {
            "text": "Counted again in the finished release before it was written.",
            "rows": [{"name": held, "asked": hidden, "found": hidden, "holds": True}],
        }
        return Audit(
            {
                "title": "Hidden rules",
                "summary": f"{counted(hidden, 'rule', 'was')} hidden in "
                f"{counted(summary['baskets'], 'basket')}; "
                f"{counted(summary['baskets_touched'], 'basket', 'was')} changed.",
                "guarantee": guarantee,
                "k": 10,
                "metrics": {k: v for k, v in summary.items() if isinstance(v, float)},
                "attacks": attacks or {},
                "sections": [_rules_section(report)],
                "limits": list(LIMITS),
                "command": self.job.command,
                "verdict": _judged(summary),
                "untried": untried,
            }
        )

    def _manifest(
        self,
        entry: dict[str, Any],
        summary: dict[str, Any],
        verdict: dict[str, Any],
        held: str | None = None,
    ) -> Manifest:
        options, rules = self.options, self.wishes.rules
        asked = ["min_support", "min_confidence"]
        if options.disclosure is not None:  # thresholds then only serve to measure
            asked = ["disclosure"]
        own = sum(rule.has_thresholds or rule.disclosure is not None for rule in rules)
        return Manifest(
            method="hide",
            # a margin that is the same for all rules would tell where to look for them
            parameters={n: v for n, v in options.values().items() if n != "margin"}
            | {"rules": len(rules)},
            guarantee={name: getattr(options, name) for name in asked}
            | {"rules_with_their_own": own},
            # true of whatever gets a name: hiding counts in the release and raises if it does not
            # hold
            verified={held or _held(self.wishes, options): True},
            counts={name: value for name, value in summary.items() if name not in _OWNERS},
            source=entry,
            verdict=verdict,
            accepted_risk=self.job.accepted,
            seed=seed_policy(self.seed),
        )


def _settled(options: Hiding, *, stream: bool) -> Hiding:
    """Fill in defaults that depend on the method, and raise for options without effect."""
    from tulle.rules._stream import WINDOW

    method = options.method or ("swa" if stream else "best")
    check_flag("hide", "shuffle", options.shuffle)
    if method == "best" and options.min_support is None:
        raise ParameterError(
            "is needed to know which rules should stay: give the threshold that a miner would use, "
            "such as 0.1%, or a --method other than best with --disclosure",
            subject=options.word("min_support"),
        )
    defaults: dict[str, Any] = {}
    if method == "swa":
        window = WINDOW if stream else None
        defaults = {"window": window, "victim": "transaction", "lookahead": "always"}
    elif method == "blocking":
        defaults = {"interval": "middle"}
    for owner, names in _OF_METHOD.items():
        for name in names if owner != method else ():
            if getattr(options, name) is not None:
                more = " and --stream" if owner == "swa" else ""
                raise ParameterError(f"is for --method {owner}{more}", subject=options.word(name))
    asked = {name: getattr(options, name) for name in defaults}
    chosen = {name: defaults[name] if value is None else value for name, value in asked.items()}
    return replace(options, method=method, **chosen)


def _wishes(
    source: FilePath, rules: FilePath | None, choose: str | None, options: Hiding, seed: int | None
) -> RuleFile:
    """Return the rules to hide: those of a file, or some that a scenario takes."""
    if (rules is None) == (choose is None):
        raise ParameterError("give --rules FILE, or --choose a scenario, and not both")
    if rules is not None:
        if options.support_of != "rule":
            raise ParameterError("is for --choose", subject=options.word("support_of"))
        return read_rules(rules)
    scenario, _, number = str(choose).partition(":")
    if scenario not in SCENARIOS or not (number.isdecimal() or not number):
        raise ParameterError(
            f"must be one of {', '.join(SCENARIOS)}, with the number of rules after a colon if it "
            "is not 20: S2:5",
            subject="--choose",
        )
    support, confidence = options.min_support, options.min_confidence
    if support is None or confidence is None:
        name = "min_support" if support is None else "min_confidence"
        raise ParameterError("is needed to choose rules", subject=options.word(name))
    chosen = choose_rules(
        open_file(source, options.basket, options.item).baskets,
        int(number or 20),
        min_support=support,
        min_confidence=confidence,
        scenario=scenario,
        support_of=options.support_of,
        random_state=seed,
    )
    return RuleFile(chosen, [])


def _check_stream(source: FilePath, output: FilePath, wishes: RuleFile, options: Hiding) -> None:
    if options.method != "swa":
        raise ParameterError("--stream uses the sliding window: drop --method, or pass swa")
    lists = [
        is_table_name(name) and format_of(name) in (Format.PARQUET, Format.ARROW)
        for name in (source, output)
    ]
    fimi = [not is_table_name(name) for name in (source, output)]
    if not (all(lists) or all(fimi)) or str(output).endswith(".gz"):
        raise ParameterError(
            "--stream reads and writes FIMI files (.dat), or Parquet and Arrow files with one "
            "column of lists"
        )
    if options.basket is not None or options.item is not None or options.keep:
        raise ParameterError(
            "--basket, --item and --keep are for tables: FIMI files have no columns"
        )
    if wishes.keep or options.shuffle:
        raise ParameterError("--stream cannot shuffle or keep itemsets")


def _summary(hider: RuleHider, released: Transactions, outcome: dict[str, int]) -> dict[str, Any]:
    return {
        "baskets": hider.n_transactions_,
        "baskets_touched": hider.n_transactions_touched_,
        "baskets_empty": len(released) - len(filled(released)),
        **outcome,
        "hiding_failure": hider.hiding_failure_,
        "misses_cost": hider.misses_cost_,
        "misses_cost_avoidable": hider.misses_cost_avoidable_,
        "artifactual_patterns": hider.artifactual_,
        "dif": hider.dif_,
    }


def _outcome(
    report: Report, options: Hiding, rules: Sequence[Rule], baskets: int
) -> dict[str, int]:
    """Count the rules that are hidden, that were before, and that a miner still finds.

    If all were below their limits before, nothing would be hidden, and the thresholds are most
    likely not the miner's: 0.1 is a tenth of the baskets, a thousandth is 0.1%. A share of each
    rule's own baskets (disclosure) has nothing to do with mining.
    """
    from tulle.rules.hider import minable

    typed = options.min_support
    below = [
        options.disclosure is None
        and rule.disclosure is None
        and (
            line["support_before"] < line["support_limit"]
            or line["confidence_before"] < (line["confidence_limit"] or 0.0)
        )
        for line, rule in zip(report, rules)
    ]
    if all(below):
        meant = ""
        strongest = max(line["support_before"] for line in report)
        is_share = isinstance(typed, str | float) and not str(typed).strip().endswith("%")
        if is_share and strongest * 100 >= float(str(typed)):
            meant = f" Did you mean {options.word('min_support')} {float(str(typed)):g}%?"
        raise DataError(
            f"{counted(len(report), 'rule', 'is')} below the thresholds in the data already, so "
            f"that nothing would be hidden: anyone who mines with {options.word('min_support')} "
            f"{typed} finds none of them.{meant} Give the thresholds that a miner would use"
        )
    found = [False] * len(report)
    if typed is not None:
        least = support_count("hide", typed, baskets)
        sure = confidence_if_any("hide", options.min_confidence)
        found = [minable(line, "after", least, sure) for line in report]
    below = [one and not seen for one, seen in zip(below, found)]
    return {
        "rules_hidden": len(report) - sum(found) - sum(below),
        "rules_below_already": sum(below),
        "rules_still_found": sum(found),
    }


def _rows(report: Report) -> list[dict[str, Any]]:
    measures = [f"{name}_{when}" for name in _MEASURES for when in ("before", "after")]
    return [{name: line[name] for name in ("rule", *measures)} for line in report]


def _notes(options: Hiding, summary: dict[str, Any]) -> list[str]:
    notes = []
    if summary["rules_below_already"]:
        notes.append(
            f"{counted(summary['rules_below_already'], 'rule', 'was')} below the thresholds "
            "before: nothing had to be done. Check that the thresholds are those of a miner"
        )
    if options.method == "algo1a":
        notes.append(
            "items may have been added: the release may state things about people that are not true"
        )
    if options.method == "blocking":
        notes.append("blocked cells: an item marked ? may or may not be in the basket")
    if options.keep:
        notes.append(
            "kept columns are released as they are, without the rows that were taken out: people "
            "may be recognised by them, and a total over a basket shows that something is missing"
        )
    if summary["baskets_empty"]:
        notes.append("empty baskets: only a wide table of 0 and 1 can hold them")
    return notes


def _held(wishes: RuleFile, options: Hiding) -> str:
    """Describe what was verified, in words that are true of whatever was requested."""
    if options.disclosure is None and all(rule.disclosure is None for rule in wishes.rules):
        return HELD
    return f"{HELD}, or keeps at most the share of its baskets that may stay"


def _public(page: Audit, reason: str = _BELOW, after: str = _ONE_FOR_ONE) -> dict[str, Any]:
    """Return the verdict for the manifest: of rules it says the same whatever an attack found.

    Telling a reader that one works would tell them where to look.
    """
    told = public_verdict(page)
    if page.verdict["privacy"]["level"] == "bad":  # the accepted risk is in the manifest
        return told
    return {**told, "privacy": {"level": "good", "reason": reason, "next": after}}


# what would count the baskets behind a hidden rule
_OWNERS = ("baskets_touched", "dif", "rules_hidden", "rules_below_already")
