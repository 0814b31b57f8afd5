"""Paper 002: the data sets, their rules, and the sliding window algorithm."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.results import data_folder, timed
from tulle import PrivacyError, RuleHider, Transactions, association_rules, choose_rules, read_fimi
from tulle.rules._classic import algo2a, iga, swa
from tulle.rules._sensitive import (
    MinedRules,
    SensitiveRules,
    Thresholds,
    count_sets,
    lookup,
    side_effects,
)
from tulle.rules.rule import Rule, confidence_share, support_count

Found = dict[str, Any]

FILES = {
    "BMS-Web-View-1": "BMS-WebView-1",
    "Retail": "retail",
    "Reuters": "reuters_words",
    "Mushroom": "mushroom",
    "Chess": "chess",
    "Connect": "connect",
}
PARTS = ("Accidents", "Kosarak", "Pumsb")  # only a head of the file, or nothing
STUDIED = {
    "BMS-1": ("BMS-WebView-1", 0.001),
    "Retail": ("retail", 0.001),
    "Reuters": ("reuters_words", 0.055),
    "Kosarak": ("kosarak_head36000", 0.002),
}
RECORDS = {"BMS-1": 59_602, "Retail": 88_162, "Reuters": 7_774, "Kosarak": 990_573}
WINDOWS = (500, 1_000, 5_000, 10_000, 20_000, 40_000, 60_000, 80_000, 100_000)
CONFIDENCE = 0.6
FILLS = (0.0, 0.5, 1.0)  # of open cells, by a receiver


def load(name: str) -> Transactions:
    return read_fimi(data_folder() / "transactions" / f"{name}.dat.gz")


def table1(quick: bool) -> Found:
    """Baskets, items and lengths."""
    values: Found = {}
    for name, file in FILES.items():
        baskets = load(file)
        lengths = baskets.lengths
        values[name] = {
            "records": len(baskets),
            "items": len(baskets.names),
            "average": float(lengths.mean()),
            "shortest": int(lengths.min()),
            "longest": int(lengths.max()),
        }
    return {"values": values | {name: {} for name in PARTS}}


def table2(quick: bool) -> Found:
    """Rules with one item in the consequent, by the support of their antecedent."""
    values: Found = {}
    notes = []
    for name, (file, share) in STUDIED.items():
        baskets = load(file)
        limits = {"min_support": share, "min_confidence": CONFIDENCE, "max_consequent": 1}
        found = association_rules(baskets, support_of="antecedent", **limits)
        usual = association_rules(baskets, **limits).height
        longest = int((found["antecedent"].list.len() + 1).max())
        values[name] = {"rules": found.height, "longest rule": longest}
        notes.append(f"{name} {usual:,}")
    head = values["Kosarak"]
    values["Kosarak"] = {}
    return {
        "values": values,
        "notes": "With the support of the whole rule there are "
        + ", ".join(notes)
        + ". The head of "
        f"Kosarak has {head['rules']:,} rules, the longest of {head['longest rule']} items.",
    }


def windows(quick: bool) -> Found:
    """Measures of SWA by the size of its window."""
    values: Found = {}
    curves = []
    for name, (file, share) in STUDIED.items():
        if quick and name != "Reuters":
            continue
        baskets = load(file)
        points = _windows(baskets, share)
        curves += [{"data": name, **point} for point in points]
        last = points[-1]["misses cost"]
        far = [p["window"] for p in points if abs(p["misses cost"] - last) > 0.01]
        settled = next(p["window"] for p in points if p["window"] > max(far, default=0))
        at = 5_000 if name == "Reuters" else 40_000
        values[name] = {
            "share of the file, %": 100 * at / RECORDS[name],
            "settled at": None if name == "Kosarak" else settled,
        }
        print(name, values[name], flush=True)
    better = [
        next(p for p in reversed(curves) if p["data"] == name)["misses cost"]
        <= next(p for p in curves if p["data"] == name)["misses cost"]
        for name in values
        if name != "Reuters"
    ]
    return {
        "values": values,
        "claims": {
            "improves": {
                "holds": sum(better),
                "of": len(better),
                "ours": "files with fewer misses in one window than in windows of 500",
            }
        },
        "curves": curves,
    }


def _windows(baskets: Transactions, share: float) -> list[dict[str, Any]]:
    limits = {"min_support": share, "min_confidence": CONFIDENCE}
    rules = choose_rules(baskets, 6, scenario="S3", **limits)
    minimum = support_count("windows", share, len(baskets))
    sure = confidence_share("windows", CONFIDENCE)
    before = MinedRules.of(baskets, minimum, sure, "antecedent")
    sensitive = SensitiveRules.find(baskets, rules, Thresholds("windows", disclosure=0.25))
    points = []
    for window in [size for size in WINDOWS if size < len(baskets)] + [len(baskets)]:
        hider = RuleHider(
            rules, method="swa", disclosure=0.25, window=window, lookahead="printed",
            random_state=0, **limits,
        )  # fmt: skip
        released = hider.fit_transform(baskets)
        after = MinedRules.of(released, minimum, sure, "antecedent")
        points.append(
            {
                "window": window,
                "dif": hider.dif_,
                "misses cost": side_effects(before, after, sensitive)["misses_cost"],
                "hiding failure": hider.hiding_failure_,
            }
        )
    return points


def blocked(quick: bool) -> Found:
    """Six rules made uncertain, by the lower end and by the middle of their intervals."""
    safe = dict.fromkeys(("lower", "middle"), 0)
    notes = []
    rules = 0
    for name, (file, share) in STUDIED.items():
        if quick and name != "Reuters":
            continue
        limits = {"min_support": share, "min_confidence": CONFIDENCE}
        baskets = load(file)
        chosen = choose_rules(baskets, 6, scenario="S2", random_state=0, **limits)
        rules += len(chosen)
        minimum = support_count("blocked", share, len(baskets))
        for interval in safe:
            hider = RuleHider(
                chosen, method="blocking", interval=interval, random_state=0, **limits
            )
            try:
                released = hider.fit_transform(baskets)
            except PrivacyError as error:
                notes.append(f"{name}, {interval}: refused")
                print(name, interval, error, flush=True)
                continue
            found = [_seen(released, rule, minimum, fill) for rule in chosen for fill in FILLS]
            coin, full = (sum(found[i :: len(FILLS)]) for i in (1, 2))
            safe[interval] += len(chosen) - coin
            notes.append(f"{name}, {interval}: {coin} and {full}, {hider.dif_:.2%} of the cells")
    return {
        "claims": {
            interval: {
                "holds": count,
                "of": rules,
                "ours": "rules not found by a receiver who tosses a coin for each open cell",
            }
            for interval, count in safe.items()
        },
        "notes": f"Of six rules each, found with a coin and with all open cells full, and cells "
        f"that are open: {'; '.join(notes)}.",
    }


def _seen(released: Transactions, rule: Rule, minimum: int, fill: float) -> bool:
    """Return whether a rule is found once each open cell is full with some probability."""
    assert released.unknown is not None
    open_ = released.unknown
    full = np.random.default_rng(0).random(len(open_.items)) < fill
    filled = released.adding(open_.row_of[full], open_.items[full])
    whole, left = count_sets(filled, lookup(filled, [rule.items, rule.antecedent]))
    return whole >= minimum and whole >= CONFIDENCE * left


def times(quick: bool) -> Found:
    """CPU time of three methods by the number of rules, psi = 0."""
    baskets = load("kosarak_head36000")
    curves = []
    for number in (20, 40, 60, 80, 100)[:: 4 if quick else 1]:
        rules = choose_rules(
            baskets, number, scenario="S2", min_support=0.002, min_confidence=CONFIDENCE,
            random_state=0,
        )  # fmt: skip
        sensitive = SensitiveRules.find(baskets, rules, Thresholds("times", disclosure=0))
        for name, method in (("Algo2a", algo2a), ("SWA", swa), ("IGA", iga)):
            work = partial(method, sensitive, np.random.default_rng(0))
            best = min(timed(work)[1] for _ in range(3))
            curves.append({"rules": number, "method": name, "seconds": best})
    at = {(p["rules"], p["method"]): p["seconds"] for p in curves}
    numbers = sorted({p["rules"] for p in curves})
    first, last = numbers[0], numbers[-1]
    growth = {name: at[last, name] / at[first, name] for name in ("Algo2a", "SWA", "IGA")}
    return {
        "claims": {
            "iga fastest": {
                "holds": sum(at[n, "IGA"] < at[n, "SWA"] for n in numbers),
                "of": len(numbers),
                "ours": "numbers of rules",
            },
            "algo2a slowest": {
                "holds": sum(at[n, "Algo2a"] > at[n, "SWA"] for n in numbers),
                "of": len(numbers),
                "ours": "numbers of rules; Algo2a takes "
                f"{at[last, 'Algo2a'] / at[last, 'SWA']:.0f} times as long as SWA at {last} rules",
            },
            "scales": {
                "holds": sum(value < 1.5 * last / first for value in growth.values()),
                "of": len(growth),
                "ours": f"methods; from {first} to {last} rules the time grows "
                + ", ".join(f"{value:.1f} times ({name})" for name, value in growth.items()),
            },
        },
        "curves": curves,
    }
