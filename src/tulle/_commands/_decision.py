"""Whether a release is written: the verdict, and who takes the risk of a bad one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import polars as pl

from tulle._commands._copies import Put, written_beside
from tulle._commands._sources import check_files, signing_key, sources_read, writing_beside
from tulle._report.editions import edition_of
from tulle._report.model import Judgement, Verdict
from tulle._types import FilePath
from tulle.auditing import Audit
from tulle.errors import ParameterError, PrivacyError, TulleError
from tulle.io._dialect import Dialect
from tulle.io._formats import Format, display_name, format_of, refuse_read_only
from tulle.io._statistics_files import FileLabels
from tulle.io.write import put_table
from tulle.keys import SigningKey
from tulle.releases import Manifest, has_manifest, read_manifest, releasing
from tulle.releases.manifest import Draft

UNAUDITED = "run this again without --no-audit"
_LONGEST = 1000  # letters of a reason: it goes into the manifest


class Refused(PrivacyError):
    """Raised where the verdict on privacy is bad and nobody took the risk."""

    def __init__(
        self,
        verdict: Verdict,
        outcome: str = "nothing was written",
        audit: Audit | None = None,
        chosen: Mapping[str, Any] | None = None,
    ) -> None:
        tried = chosen is not None and chosen["tried"]
        why = f" Of the sizes tried, {chosen['why']}." if chosen is not None and tried else ""
        remedy = audit.result.get("remedy") if audit is not None else None  # of baskets: none
        why += f" {remedy}" if remedy else ""
        super().__init__(
            f"the verdict on privacy is 'bad': {outcome}. {verdict['privacy']['reason']}{why} To "
            "go on all the same, and to keep the reason in the manifest: --accept-risk REASON"
        )
        self.verdict, self.audit, self.chosen = verdict, audit, chosen


class Done(NamedTuple):
    """The outcome of a finished command, as its user is shown it."""

    summary: dict[str, Any]
    tables: dict[str, list[dict[str, Any]]]
    notes: list[str]
    verdict: Verdict | None = None  # of a release
    audit: Audit | None = None


def check_accepted(reason: str | None) -> str:
    """Return the reason for which a risk is taken, empty without one; it must say something."""
    if reason is None:
        return ""
    words = " ".join(reason.split())
    if not words:
        raise ParameterError(
            "--accept-risk needs a reason: who accepts which risk, and why. It goes into the "
            "manifest"
        )
    if len(words) > _LONGEST:
        raise ParameterError(
            f"--accept-risk takes at most {_LONGEST} letters, got {len(words)}: refer to a document"
        )
    return words


def decided(audit: Audit, accepted: str, chosen: Mapping[str, Any] | None = None) -> Verdict:
    """Return the verdict of an audit, or raise if it is bad and the risk is not accepted."""
    verdict = audit.verdict
    if verdict["privacy"]["level"] == "bad" and not accepted:
        raise Refused(verdict, audit=audit, chosen=chosen)
    return verdict


def refuse_two_controls(options: Any, control: FilePath | None) -> None:
    """Raise if a control is both named and drawn."""
    if control is not None and options.holdout is not None:
        raise ParameterError(
            f"--control names the people who are kept apart, {options.word('holdout')} draws them: "
            "give one of the two"
        )


def with_verdict(manifest: Manifest, audit: Audit, accepted: str) -> Manifest:
    """Return the manifest with the verdict that its readers may know, and the accepted risk."""
    return replace(manifest, verdict=public_verdict(audit), accepted_risk=accepted)


@dataclass(frozen=True)
class Job:
    """One release that a command is asked for: where it goes, and who vouches for it."""

    output: FilePath
    report: FilePath | None
    sources: tuple[str, ...]  # that it may not replace
    signer: SigningKey | None
    accepted: str  # the reason for which a bad verdict is accepted; else empty
    command: str
    force: bool

    @classmethod
    def opened(
        cls,
        output: FilePath,
        reads: Mapping[str, FilePath | None],
        *,
        report: FilePath | None,
        sign_key: FilePath | None,
        accept_risk: str | None,
        command: str,
        force: bool,
        **files: Any,
    ) -> Job:
        """Check what was given, before anything is read; ``files`` are for :func:`check_files`."""
        refuse_read_only(output)
        accepted = check_accepted(accept_risk)
        reads = {**reads, "--sign-key": sign_key}
        check_files(reads, release=output, report=report, force=force, **files)
        sources, signer = sources_read(*reads.values()), signing_key(sign_key)
        return cls(output, report, sources, signer, accepted, command, force)

    def releasing(self) -> AbstractContextManager[Draft]:
        """Open the release, to write its data and then its manifest."""
        return releasing(self.output, sources=self.sources, sign_key=self.signer, force=self.force)

    def write(
        self,
        release: pl.DataFrame,
        manifest: Manifest,
        audit: Audit,
        dialect: Dialect | FileLabels | None,
        chosen: Mapping[str, Any] | None = None,
        beside: Mapping[Path, Put] = MappingProxyType({}),
    ) -> None:
        """Write a table with manifest and report, or only the report where the verdict is bad.

        A release in CSV is written in a ``dialect``, that of its source. ``chosen`` is what was
        tried to find k, if it was. What goes ``beside`` it is written first, and named in the
        manifest.
        """
        self.refuse_bad(audit, chosen)
        beside_it = written_beside(beside, force=self.force)
        with self.reported(audit), beside_it as named, self.releasing() as draft:
            put_table(release, draft.file, self.output, dialect)
            manifest = replace(manifest, output={**manifest.output, **named})
            if isinstance(dialect, Dialect) and format_of(self.output) is Format.CSV:
                told = {**manifest.output, "written as": dialect.told(release.columns)}
                manifest = replace(manifest, output=told)
            draft.finish(with_verdict(manifest, audit, self.accepted))

    def refuse_bad(self, audit: Audit, chosen: Mapping[str, Any] | None = None) -> None:
        """Raise if the verdict is bad and nobody took the risk, after writing only the report."""
        try:
            decided(audit, self.accepted, chosen)
        except Refused:  # whoever asked for a report needs it most where nothing is released
            self.save_report(audit)
            raise

    @contextmanager
    def reported(self, audit: Audit) -> Iterator[None]:
        """Write the report before the release; it is not left where the block writes none."""
        self.save_report(audit)
        before = self._manifest()
        try:
            yield
        except BaseException:  # which may come when the release is there already
            if self.report is not None and self._manifest() == before:
                Path(self.report).unlink(missing_ok=True)
            raise

    def _manifest(self) -> Manifest | None:
        """Return the manifest that is at the place of the release."""
        try:
            there = self.report is not None and has_manifest(self.output)
            return read_manifest(self.output) if there else None
        except TulleError:
            return None

    def save_report(self, audit: Audit | None, *, released: bool = False) -> None:
        """Write the report, if one is asked for; an error says what became of the release."""
        if self.report is not None and audit is not None:
            written = f"the release {display_name(self.output)} was written"
            with writing_beside(written if released else "nothing was released", self.report):
                audit.save(self.report, force=self.force)


def public_verdict(audit: Audit) -> dict[str, Any]:
    """Return the verdict in figures that nobody is behind alone; levels only for a tiny table."""
    try:
        verdict: Mapping[str, Any] = edition_of(audit.result, "public")["verdict"]
    except PrivacyError:
        return {about: {"level": judged["level"]} for about, judged in audit.verdict.items()}  # type: ignore[index]
    return {about: _told(judged) for about, judged in verdict.items()}


def _told(judged: Judgement) -> dict[str, str]:
    return {"level": judged["level"], "reason": judged["reason"], "next": judged["next"]}
