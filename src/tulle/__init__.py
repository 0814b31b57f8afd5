"""Tulle: share the shape of your data, not the people in it.

Public names load on first use, so that ``import tulle`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# name -> the module that defines it
_HOMES = {
    "Audit": "tulle.auditing",
    "audit": "tulle.auditing",
    "ClassCondenser": "tulle.condense.class_condenser",
    "Condenser": "tulle.condense.condenser",
    "GroupSizeSearch": "tulle.tuning.search",
    "PatternSanitizer": "tulle.rules.patterns",
    "Rule": "tulle.rules.rule",
    "RuleHider": "tulle.rules.hider",
    "rules": "tulle.rules",
    "read_batches": "tulle.io.read",
    "read_table": "tulle.io.read",
    "write_table": "tulle.io.write",
    "SecretKey": "tulle.keys",
    "StreamCondenser": "tulle.stream",
    "Sketcher": "tulle.sketch.sketcher",
    "SiteAgreement": "tulle.sites.agreement",
    "SiteCodec": "tulle.sites.codec",
    "SiteSummary": "tulle.sites.summary",
}
__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        home = import_module(_HOMES[name])
        return home if _HOMES[name] == f"tulle.{name}" else getattr(home, name)
    raise AttributeError(f"module 'tulle' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
