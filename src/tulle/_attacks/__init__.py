"""Attacks: what somebody who holds a release can find out, one attack a file.

Each is a pure function on arrays with its generator as last argument, and returns an
:class:`~tulle._attacks.result.AttackResult`.
"""

from __future__ import annotations

from tulle._attacks.result import NO_EVIDENCE, AttackResult, Interval, wilson

__all__ = ["NO_EVIDENCE", "AttackResult", "Interval", "wilson"]
