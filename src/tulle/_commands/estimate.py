"""``tulle estimate``: a question to a release, and its answer with an interval."""

from __future__ import annotations

from tulle._commands._decision import Done
from tulle._commands._sources import check_files
from tulle._types import FilePath
from tulle.errors import GateError
from tulle.io._formats import display_name


def estimate(
    release: FilePath, question: str, *, weight: str | None = None, population: bool = False
) -> Done:
    """Answer a question from a release and its copies, with the intervals of its ledger."""
    check_files({"RELEASE": release}, folders=("RELEASE",), force=False)

    from tulle.estimating.estimate import estimate as estimated
    from tulle.estimating.estimate import read_copies

    copies, ledger, records, named = read_copies(release)
    weight = named if weight is None else "" if weight == "none" else weight
    found = estimated(
        copies, question, ledger=ledger, records=records, weight=weight, population=population
    )
    summary = {
        "release": display_name(release),
        "question": " ".join(question.split()),
        "copies": len(copies),
        **({"weight": weight} if weight else {}),
        "intervals": "none: the release has no error ledger (tulle condense --ledger)"
        if ledger is None
        else f"95 of 100 cover {'the population' if population else 'the original'}",
    }
    if ledger is None:  # said once
        found = found.drop("note", "low", "high")
    elif (found["note"] == "").all():
        found = found.drop("note")
    return Done(summary, {"estimates": found.to_dicts()}, [])


def refuse_unanswered(done: Done) -> None:
    rows = done.tables["estimates"]
    if all(row["estimate"] is None for row in rows):
        raise GateError(f"{done.summary['question']}: {rows[0]['note']}")
