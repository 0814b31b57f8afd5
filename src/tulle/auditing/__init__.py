"""The audit: measures and attacks on (original, release, control), as one result."""

from __future__ import annotations

from tulle.auditing.auditor import audit
from tulle.auditing.gates import check_gates, gate_rows
from tulle.auditing.result import Audit
from tulle.auditing.sections import group_section

__all__ = ["Audit", "audit", "check_gates", "gate_rows", "group_section"]
