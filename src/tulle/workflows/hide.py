"""``tulle hide``: baskets and secret rules in, baskets without the rules out.

The manifest travels with the release, so it counts the rules and never names them. The summary
and the report, which name them, are the owner's.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

from tulle.attacks.rules import rule_recovery
from tulle.auditing.result import Audit
from tulle.checks import check_int
from tulle.errors import ParameterError
from tulle.random import as_generator, seed_policy
from tulle.releases import Manifest, check_target, write_release
from tulle.rules.hider import RuleHider
from tulle.rules.inputs import is_table_name, shuffled
from tulle.rules.rule import RuleFile, read_rules
from tulle.rules.sensitive import Thresholds
from tulle.rules.stream import WINDOW, hide_stream
from tulle.rules.thresholds import exact_share, support_count
from tulle.tables.policy import load_policy
from tulle.transactions import Transactions
from tulle.workflows.baskets import FilePath, Opened, open_file, put_baskets
from tulle.workflows.sources import check_names, source_entry, sources_read

DEFAULTS: dict[str, Any] = {
    "method": "best",
    "min_support": None,
    "min_confidence": None,
    "margin": 0.0,
    "disclosure": None,
    "window": None,
    "victim": "transaction",
    "additions": False,
    "basket": None,
    "item": None,
    "shuffle": False,
}
LIMITS = (
    "A receiver who mines with lower thresholds finds the hidden rules again: a larger margin "
    "takes them further down.",
    "Baskets are released one for one: a person in them can be recognised by what they bought.",
    "A receiver who knows the usual strength of a hidden rule may notice that it is missing.",
)


class Hidden(NamedTuple):
    """What is to be said of a finished release; ``rules`` is for the owner."""

    summary: dict[str, Any]
    rules: list[dict[str, Any]]
    notes: list[str]
    released: Transactions | None = None  # not if it was streamed


def hide(
    source: FilePath,
    output: FilePath,
    *,
    rules: FilePath,
    stream: bool = False,
    policy: FilePath | None = None,
    report: FilePath | None = None,
    seed: int | None = None,
    command: str = "",
    force: bool = False,
    **options: Any,
) -> Hidden:
    """Hides the rules of a rules file in baskets and writes the release.

    Options left at None follow the policy, else the defaults. With ``stream`` the file goes
    through SWA window by window in bounded memory.
    """
    sources = sources_read(source, rules, policy)
    check_target(output, sources=sources, force=force)
    others = {"INPUT": source, "--rules": rules, "--policy": policy}
    check_names(output=output, report=report, others=others, force=force)
    wanted = DEFAULTS | ({} if policy is None else load_policy(policy).options("hide", DEFAULTS))
    wanted |= {name: value for name, value in options.items() if value is not None}
    wishes = read_rules(rules)
    work = _streamed if stream else _whole
    made = work(source, output, wishes, wanted, seed, sources, force)
    if report is not None:
        attacks = _attacks(made.released, wishes, wanted, seed)
        _audit(made, attacks, wanted, command).save(report, force=force)
    return made


def _whole(
    source: FilePath, output: FilePath, wishes: RuleFile, wanted: dict[str, Any],
    seed: int | None, sources: tuple[str, ...], force: bool,
) -> Hidden:  # fmt: skip
    opened = open_file(source, wanted["basket"], wanted["item"])
    as_table = is_table_name(output) and opened.restore is not None
    rng = as_generator(seed)
    hider = RuleHider(
        wishes.rules,
        **{name: wanted[name] for name in DEFAULTS if name not in ("basket", "item", "shuffle")},
        keep=wishes.keep,
        shuffle=wanted["shuffle"] and not as_table,
        random_state=rng,
    )
    released = hider.fit_transform(opened.baskets)
    frame = _table(opened, released, wanted["shuffle"], rng) if as_table else None
    summary = _summary(hider)
    write_release(
        output,
        lambda file: put_baskets(released, frame, file, output),
        _manifest(
            source_entry(source, summary["baskets"]), wanted, summary, len(wishes.rules), seed
        ),
        sources=sources,
        force=force,
    )
    return Hidden(summary, _rows(hider.report_), _notes(wanted), released)


def _streamed(
    source: FilePath, output: FilePath, wishes: RuleFile, wanted: dict[str, Any],
    seed: int | None, sources: tuple[str, ...], force: bool,
) -> Hidden:  # fmt: skip
    _check_stream(source, output, wishes, wanted)
    summary: dict[str, Any] = {}
    entry = source_entry(source, 0)  # this and the summary are filled in by the writer
    rows: list[dict[str, Any]] = []

    def write(file: Any) -> None:
        found = hide_stream(
            source,
            file,
            wishes.rules,
            Thresholds(
                "hide",
                wanted["min_support"],
                wanted["min_confidence"],
                wanted["margin"],
                wanted["disclosure"],
            ),
            window=wanted["window"] or WINDOW,
            victim=wanted["victim"],
            random_state=seed,
        )
        rows.extend(_rows(found.report))
        summary.update(
            baskets=found.n_transactions,
            baskets_touched=found.n_transactions_touched,
            dif=found.dif,
            rules_hidden=len(found.report),
        )
        entry["records"] = found.n_transactions

    manifest = _manifest(entry, wanted, summary, len(wishes.rules), seed)
    write_release(output, write, manifest, sources=sources, force=force)
    return Hidden(summary, rows, ["streamed: the cost in other rules was not measured"])


_MEASURES = ("support", "confidence")
_HELD = "every rule is below its threshold in the release"


def _check_stream(
    source: FilePath, output: FilePath, wishes: RuleFile, wanted: dict[str, Any]
) -> None:
    if wanted["method"] not in ("swa", "best"):
        raise ParameterError("--stream hides by the sliding window: leave --method out, or swa")
    if is_table_name(source) or is_table_name(output) or str(output).endswith(".gz"):
        raise ParameterError("--stream reads and writes FIMI files (.dat)")
    if wishes.keep or wanted["shuffle"] or wanted["additions"]:
        raise ParameterError("--stream can neither shuffle, keep itemsets nor add items")
    if wanted["window"] is not None:
        check_int("hide", "window", wanted["window"], 1)
    if wanted["min_support"] is None and wanted["disclosure"] is None:
        raise ParameterError("give --min-support (and --min-confidence) or --disclosure")
    wanted["method"] = "swa"


def _table(opened: Opened, released: Transactions, shuffle: bool, rng: Any) -> Any:
    assert opened.restore is not None
    frame = opened.restore(released)
    return shuffled(frame, rng.permutation(len(frame))) if shuffle else frame


def _summary(hider: RuleHider) -> dict[str, Any]:
    return {
        "baskets": hider.n_transactions_,
        "baskets_touched": hider.n_transactions_touched_,
        "rules_hidden": len(hider.report_),
        "hiding_failure": hider.hiding_failure_,
        "misses_cost": hider.misses_cost_,
        "misses_cost_avoidable": hider.misses_cost_avoidable_,
        "artifactual_patterns": hider.artifactual_,
        "dif": hider.dif_,
    }


def _rows(report: list[dict[str, Any]]) -> list[dict[str, Any]]:
    measures = (f"{measure}_{when}" for measure in _MEASURES for when in ("before", "after"))
    fields = ("rule", *measures)
    return [{name: line[name] for name in fields} for line in report]


def _notes(wanted: dict[str, Any]) -> list[str]:
    if wanted["method"] == "algo1a" or wanted["additions"]:
        return ["items may have been added: the release can say of people what is not true"]
    if wanted["method"] == "blocking":
        return ["blocked cells: an item with ? may or may not be in the basket"]
    return []


def _manifest(
    source: dict[str, Any], wanted: dict[str, Any], summary: dict[str, Any], n_rules: int,
    seed: int | None,
) -> Manifest:  # fmt: skip
    return Manifest(
        method="hide",
        parameters={**wanted, "rules": n_rules},
        guarantee={
            "min_support": wanted["min_support"],
            "min_confidence": wanted["min_confidence"],
            "margin": wanted["margin"],
            "disclosure": wanted["disclosure"],
        },
        # true of whatever gets a name: hiding counts in the release and raises if it does not hold
        verified={_HELD: True},
        counts=summary,
        source=source,
        seed=seed_policy(seed),
    )


def _attacks(
    released: Transactions | None, wishes: RuleFile, wanted: dict[str, Any], seed: int | None
) -> dict[str, Any]:
    """Recovery, where thresholds of mining were given and the release is in memory."""
    if released is None or released.unknown is not None or wanted["min_support"] is None:
        return {}
    sure = wanted["min_confidence"]
    found = rule_recovery(
        released,
        wishes.rules,
        support_count("hide", wanted["min_support"], len(released)),
        Fraction(0) if sure is None else exact_share("hide", "min_confidence", sure),
        as_generator(seed),
    )
    # whoever is told that it works is told where to look
    return {found.name: {**found.to_dict(), "owner_only": True}}


def _audit(made: Hidden, attacks: dict[str, Any], wanted: dict[str, Any], command: str) -> Audit:
    """The report: what it cost, and for the owner each rule before and after."""
    chart = {
        "type": "chart",
        "chart": "before_after",
        "title": "Sensitive rules before and after",
        "rows": [
            {
                "name": row["rule"],
                "measure": measure,
                "before": row[f"{measure}_before"],
                "after": row[f"{measure}_after"],
                "limit": _limit(wanted[f"min_{measure}"]),
            }
            for row in made.rules
            for measure in _MEASURES
        ],
    }
    section = {
        "id": "rules",
        "title": "The hidden rules",
        "text": "Each rule ends below one of the two thresholds (marks).",
        "blocks": [chart],
        "owner_only": True,
    }
    hidden = made.summary["rules_hidden"]
    guarantee = {
        "text": "Counted again in the finished release before it was written.",
        "rows": [{"name": _HELD, "asked": hidden, "found": hidden, "holds": True}],
    }
    metrics = {k: v for k, v in made.summary.items() if isinstance(v, float)}
    return Audit(
        {
            "title": "Hidden rules",
            "summary": f"{hidden} rules were hidden in {made.summary['baskets']:,} baskets; "
            f"{made.summary['baskets_touched']:,} baskets were touched.",
            "guarantee": guarantee,
            "k": 10,
            "metrics": metrics,
            "attacks": attacks,
            "sections": [section],
            "limits": list(LIMITS),
            "command": command,
        }
    )


def _limit(value: Any) -> float | None:
    """A threshold as a share, for the chart; a count has no place on its axis."""
    if isinstance(value, str):
        value = float(value.rstrip("%")) / 100 if value.endswith("%") else float(value)
    return value if isinstance(value, float) else None
