"""Attacks: what someone who has a release can find out, one attack per file.

Each is a pure function on arrays with its generator as last argument, and returns an
:class:`~tulle._attacks.result.AttackResult`.
"""

from __future__ import annotations

from tulle._attacks.result import NO_EVIDENCE, AttackResult, Interval, wilson

__all__ = ["NO_EVIDENCE", "AttackResult", "Interval", "wilson"]
