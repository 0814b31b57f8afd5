"""Tulle: share the shape of your data, not the people in it.

Everything a user needs is imported from here: ``from tulle import Condenser, audit``. Names load
on first use, so that ``import tulle`` costs nothing; ``__init__.pyi`` tells type checkers and
editors what they are.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_NAMES = {
    # tables
    "tulle.io.read": ("read_batches", "read_table"),
    "tulle.io.write": ("write_batches", "write_table"),
    "tulle.table.schema": ("Column", "Kind", "Role", "Schema"),
    "tulle.table.policy": ("Policy", "load_policy", "write_policy"),
    "tulle.guessing.columns": ("infer_columns",),
    "tulle.table.split": ("split",),
    "tulle.table.uniqueness": ("singling_out",),
    # condensation
    "tulle.condense.condenser": ("Condenser",),
    "tulle.condense.class_condenser": ("ClassCondenser",),
    "tulle.condense": ("approximate_gcd",),
    "tulle.condense.miners": ("GroupClassifier", "GroupKMeans"),
    "tulle.condense.training": ("CondensedTraining",),
    "tulle.stream.condenser": ("StreamCondenser",),
    "tulle.database.database": ("Database",),
    "tulle.database.condenser": ("DatabaseCondenser",),
    "tulle.tuning.search": ("GroupSizeSearch",),
    # older techniques, to compare with
    "tulle.baselines.generalize": ("generalize",),
    "tulle.baselines.randomize": ("randomize",),
    "tulle.baselines.rotate": ("rotate",),
    # rules in baskets
    "tulle.transactions.baskets": ("Transactions",),
    "tulle.transactions.fimi": ("read_fimi", "write_fimi"),
    "tulle.rules.containers": ("baskets_from_long",),
    "tulle.rules.rule": ("Rule", "read_rules"),
    "tulle.rules.mine": ("association_rules", "choose_rules", "frequent_itemsets"),
    "tulle.rules.hider": ("RuleHider",),
    "tulle.rules.patterns": ("PatternSanitizer",),
    "tulle.datasets": ("hospital", "quest"),
    # sketches
    "tulle.sketch.sketcher": ("Sketcher",),
    "tulle.sketch.sketches": ("Sketches",),
    "tulle.sketch.miners": ("SketchKMeans", "SketchKNeighborsClassifier"),
    # several sites
    "tulle.sites.agreement": ("SiteAgreement",),
    "tulle.sites.codec": ("SiteCodec",),
    "tulle.sites.matching": ("MatchedPeople", "match_people"),
    "tulle.sites.summary": ("SiteSummary",),
    "tulle.keys": ("PublicKey", "SecretKey", "SigningKey"),
    # audits and releases
    "tulle.auditing.audit": ("Audit", "audit"),
    "tulle.exploring.explore": ("Exploration", "explore"),
    "tulle.estimating.estimate": ("estimate",),
    "tulle.estimating.ledger": ("error_ledger",),
    "tulle.releases.manifest": ("Manifest",),
    "tulle.releases.release": ("read_manifest", "verify_release"),
    # what can go wrong
    "tulle.errors": (
        "DataError",
        "GateError",
        "KeyMaterialError",
        "OutputExists",
        "ParameterError",
        "PolicyError",
        "PrivacyError",
        "PrivacyWarning",
        "TulleError",
    ),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
_MODULES = ("spark",)  # which do the same on another engine
__all__ = sorted([*_HOMES, *_MODULES, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"tulle.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'tulle' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
