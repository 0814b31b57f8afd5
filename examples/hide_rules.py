"""Baskets of a shop: mine them, hide two secret rules, share the rest.

Runs in seconds, on baskets that it generates.
"""

from __future__ import annotations

import numpy as np

from tulle import PatternSanitizer, RuleHider, association_rules

HABITS = [
    (["bread", "butter", "jam"], 0.25),
    (["beer", "crisps"], 0.2),
    (["nappies", "beer", "wipes"], 0.15),
    (["milk", "eggs", "flour"], 0.2),
    (["bread", "milk"], 0.3),
]
SINGLES = ["coffee", "tea", "sugar", "soap", "apples", "beer", "milk", "bread"]
THRESHOLDS = {"min_support": "2%", "min_confidence": "50%"}
SECRET = ["nappies, wipes -> beer", "flour -> eggs"]


def shop(n_baskets: int, seed: int) -> list[list[str]]:
    """Baskets of customers with habits."""
    rng = np.random.default_rng(seed)
    baskets = []
    for _ in range(n_baskets):
        basket = {str(item) for item in rng.choice(SINGLES, size=rng.integers(1, 4))}
        for items, share in HABITS:
            if rng.random() < share:
                basket |= {item for item in items if rng.random() < 0.85}
        baskets.append(sorted(basket))
    return baskets


baskets = shop(2_000, seed=1)
found = association_rules(baskets, **THRESHOLDS)
print(f"{len(baskets)} baskets, {found.height} rules; the surest:")
print(found.sort("confidence", descending=True).head(5))

for method in ("best", "swa", "minfia"):
    hider = RuleHider(SECRET, method=method, random_state=0, **THRESHOLDS)
    shared = hider.fit_transform(baskets)
    print(
        f"\n{method}: {hider.n_transactions_touched_} baskets touched, "
        f"{hider.misses_cost_:.1%} of the other rules lost, hiding failure {hider.hiding_failure_}"
    )
    for line in hider.report_:
        print(
            f"  {line['rule']:24} support {line['support_before']:.3f} -> "
            f"{line['support_after']:.3f}, confidence {line['confidence_before']:.2f} -> "
            f"{line['confidence_after']:.2f}"
        )

sanitizer = PatternSanitizer(SECRET, **THRESHOLDS)
shareable = sanitizer.fit_transform(baskets)
print(
    f"\nRules instead of baskets: {shareable.height} of {sanitizer.n_rules_} can be shared, "
    f"none gives a secret away."
)
