"""What a report is made of: the result of an audit or a command, and its parts.

The maker of a release passes a :class:`Result`, a dictionary of words and numbers (no arrays,
no frames, no rows of the data). A section, block or attack with ``owner_only`` is left out of the
public edition, which also hides counts of fewer than ``k`` records and figures about fewer than
``k`` people, and rounds rates.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NotRequired, TypedDict, cast

from tulle._attacks.result import AttackFigures
from tulle.table.policy import CONTEXT


class Promise(TypedDict):
    """One row of a guarantee."""

    name: str
    asked: Any  # a number or a word
    found: Any
    holds: bool


class Guarantee(TypedDict):
    """What was guaranteed, and whether it holds."""

    text: str
    rows: list[Promise]


class Gate(TypedDict):
    """A limit, and whether a figure of the audit keeps it."""

    name: str
    limit: float
    value: float | None  # None in a public edition that may not tell it
    holds: bool
    people: NotRequired[int]  # the fewest people that the value is about


Level = Literal["good", "caution", "bad", "undecided"]


class Judgement(TypedDict):
    """One sentence, what to do next, and what the sentence rests on."""

    level: Level
    reason: str
    next: str
    details: list[str]


class Verdict(TypedDict):
    """Whether the release may leave, and whether it is fit for use."""

    privacy: Judgement
    use: Judgement


class Given(TypedDict, total=False):
    """What a family judges itself."""

    privacy: Judgement
    use: Judgement


class Attacks(TypedDict):
    """Somebody who attacks: what they are called, who that is, and what they know."""

    name: str
    who: str
    knows: str


class _Block(TypedDict, total=False):
    title: str
    help: str
    folded: str  # the line under which the block is folded away
    owner_only: bool


class Fact(TypedDict):
    """A named figure."""

    name: str
    value: Any
    help: NotRequired[str]
    style: NotRequired[Literal["plain", "share", "percent"]]


class Facts(_Block):
    """Named figures, one below the other."""

    type: Literal["facts"]
    rows: list[Fact]


class Sentences(_Block):
    """A list of sentences."""

    type: Literal["list"]
    rows: list[str]


class Table(_Block):
    """Rows of cells."""

    type: Literal["table"]
    columns: list[str]
    rows: list[list[Any]]
    counts: NotRequired[list[str]]  # names of the columns that count records
    behind: NotRequired[list[int]]  # how many records each row rests on, if it tells distances


class Chart(_Block):
    """A chart of one of the kinds of :mod:`tulle._charts`, which names the fields of its rows.

    Rows may also have ``count`` and ``released``: how many records of the original and of the
    release they rest on.
    """

    type: Literal["chart"]
    chart: str
    rows: list[dict[str, Any]]
    id: NotRequired[str]  # this and the columns of its table are given by the page
    columns: NotRequired[list[str]]


Block = Facts | Sentences | Table | Chart


def table(columns: Iterable[str], rows: list[list[Any]], **more: Any) -> Table:
    """Return a table as a block; ``more`` are its title, and who may see it."""
    return cast(Table, {"type": "table", "columns": list(columns), "rows": rows, **more})


def chart(kind: str, rows: list[dict[str, Any]], **more: Any) -> Chart:
    """Return a chart of a kind as a block; ``more`` are its title, and who may see it."""
    return cast(Chart, {"type": "chart", "chart": kind, "rows": rows, **more})


def sentences(rows: Iterable[str]) -> Sentences:
    """Return a list of sentences as a block."""
    return {"type": "list", "rows": list(rows)}


class Section(TypedDict):
    """A part of a report that a family adds."""

    title: str
    blocks: list[Block]
    id: NotRequired[str]
    text: NotRequired[str]
    part: NotRequired[Literal["data", "identifiability"]]  # of the report that it belongs to
    owner_only: NotRequired[bool]


class Shown(TypedDict, total=False):
    """Everything in a result that every edition may show; what is not there is empty."""

    summary: str
    guarantee: Guarantee | None
    records: int | None  # how many there are (or people); fewer than k: no public edition
    compared: int | None  # records of the smaller of original and release, which metrics compare
    chance: dict[str, float]  # how far from perfect a metric is where people are drawn again
    people: int | None  # whom attacks could be tried on: in the data,
    apart: int | None  # ... and in the control
    splits: int  # releases of parts of the people that were attacked in place of this one,
    more_splits: int  # ... and how many a run that is not quick would attack
    metrics: dict[str, float]
    behind: dict[str, int]  # records behind a metric, if not all
    attacks: dict[str, AttackFigures]
    sections: list[Section]  # in the order of the report
    limits: list[str]  # what the method does not protect, a sentence each
    gates: list[Gate]
    command: str
    provenance: dict[str, Any]  # name -> word, number or dictionary
    context: dict[str, str]  # of the policy: who receives it, what for, who decides
    attackers: list[Attacks]
    smallest_group: int | None  # people in it, if the release is made of groups
    tried: list[int]  # sizes of groups that were judged before this one was taken
    remedy: str  # a step that was tried, and helps
    accepted_risk: str  # why it was released although the verdict is bad
    untried: str  # what to do where no attack was tried
    where: dict[str, str]  # of a metric about the worst column or pair: which one that is


class Parts(Shown, total=False):
    """Everything in a result except its title."""

    k: int | None  # the least number of records behind a public aggregate
    verdict: Given | Verdict | None  # what is left out follows from the figures


class Result(Parts):
    """What an audit or a command passes to a report."""

    title: str


class Changes(Parts, total=False):
    """Parts that replace or extend those of a result."""

    title: str


class Edition(Shown):
    """A result as one edition shows it, with every part present."""

    title: str
    edition: str
    k: int
    verdict: Verdict


_EMPTY: dict[str, tuple[str, ...]] = {  # what stands for a part that is not given
    "str": ("summary", "command", "remedy", "accepted_risk"),
    "list": ("limits", "gates", "attackers", "tried", "sections"),
    "dict": ("metrics", "behind", "chance", "attacks", "provenance", "where", "context"),
}
_UNKNOWN = ("guarantee", "k", "records", "compared", "people", "apart", "verdict", "smallest_group")
_ATTACK_IT = "attack it: tulle audit ORIGINAL RELEASE --control CONTROL"


def completed(result: Result) -> Result:
    """Add the parts that a result does not have, and the words that its blocks leave out."""
    whole: dict[str, Any] = {
        "title": result["title"],  # comes first: by its first line a report is known as one
        **dict.fromkeys(_EMPTY["str"], ""),
        **{name: [] for name in _EMPTY["list"]},
        **{name: {} for name in _EMPTY["dict"]},
        **dict.fromkeys(_UNKNOWN),
        "splits": 0,
        "more_splits": 0,
        "untried": _ATTACK_IT,
        **result,
    }
    whole["sections"] = [_section(s, place) for place, s in enumerate(whole["sections"])]
    whole["context"] = {name: whole["context"].get(name, "") for name in CONTEXT}
    return cast(Result, whole)


def _section(section: Section, place: int) -> Section:
    blocks = [_block(block) for block in section["blocks"]]
    given: Section = {**section, "blocks": blocks}
    return {"id": f"section-{place}", "text": "", "part": "data", "owner_only": False, **given}


def _block(block: Block) -> Block:
    words = {"title": "", "help": "", "folded": "", "owner_only": False}
    whole = cast(Block, {**words, **block})
    if whole["type"] == "table":
        return {"counts": [], "behind": [], **whole}
    if whole["type"] == "facts":
        return {**whole, "rows": [{"help": "", "style": "plain", **row} for row in whole["rows"]]}
    return whole
