"""The audit: measures and attacks on (original, release, control), as one result."""

from __future__ import annotations

from tulle.auditing._gates import check_gates, gate_rows
from tulle.auditing._pictures import group_section
from tulle.auditing.audit import Audit, audit

__all__ = ["Audit", "audit", "check_gates", "gate_rows", "group_section"]
