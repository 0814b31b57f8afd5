"""Association rules: mining them, hiding the sensitive ones in baskets, sharing the others.

Names load on first use: mining needs neither scikit-learn nor the hiding methods.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "PatternSanitizer": "tulle.rules.patterns",
    "Rule": "tulle.rules.rule",
    "RuleHider": "tulle.rules.hider",
    "association_rules": "tulle.rules.mine",
    "choose_rules": "tulle.rules.mine",
    "frequent_itemsets": "tulle.rules.mine",
    "baskets_from_long": "tulle.rules.containers",
    "read_rules": "tulle.rules.rule",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tulle.rules' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
