"""The result of an audit: figures that can be read, shown, written and gated."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tulle import report
from tulle.report.verdict import verdict


@dataclass(frozen=True, repr=False)
class Audit:
    """What an audit found; made by :func:`tulle.audit`.

    What may leave
    --------------
    ``html(edition="public")``, ``json("public")`` and ``markdown("public")`` hold aggregates of
    at least ``k`` records only. The owner's edition and ``to_dict()`` are for the owner.
    """

    result: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain words and numbers; the shape is that of :mod:`tulle.report`."""
        whole: dict[str, Any] = copy.deepcopy(dict(self.result))
        return {**whole, "verdict": verdict(whole)}

    @property
    def verdict(self) -> dict[str, Any]:
        """``level`` (good, caution, bad), ``text`` and ``reasons``."""
        return verdict(self.result)

    def html(self, edition: str = "owner") -> str:
        """One self-contained page; ``edition`` is owner or public."""
        return report.render(self.result, edition)

    def json(self, edition: str = "owner") -> str:
        """The same as JSON."""
        return report.to_json(self.result, edition)

    def markdown(self, edition: str = "owner") -> str:
        """The same as Markdown."""
        return report.markdown(self.result, edition)

    def save(
        self, path: str | os.PathLike[str], *, edition: str = "owner", force: bool = False
    ) -> Path:
        """Writes .html, .json or .md, by the ending of ``path``; whole or not at all."""
        return report.save(self.result, path, edition=edition, force=force)

    def extended(self, **parts: Any) -> Audit:
        """A copy in which a workflow says more: title, guarantee, k, command, gates ...

        Metrics and attacks are joined, sections and limits of the workflow come first, everything
        else is replaced.
        """
        whole: dict[str, Any] = copy.deepcopy(dict(self.result))
        for name, part in parts.items():
            if name in ("metrics", "attacks", "provenance"):
                whole[name] = {**whole.get(name, {}), **part}
            elif name in ("sections", "limits"):
                whole[name] = [*part, *whole.get(name, [])]
            else:
                whole[name] = part
        return Audit(whole)

    def _repr_html_(self) -> str:
        # a page in a page: its style and its content policy stay its own
        from html import escape

        page = escape(self.html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:40rem;border:0"></iframe>'

    def __repr__(self) -> str:
        found = self.verdict
        return f"Audit({found['level']}: {found['text']})"
