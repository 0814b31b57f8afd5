"""The ladder of sizes: the smallest k that passes, judged by others than those that chose it."""

from __future__ import annotations

from collections.abc import Callable

from tulle.exploring._choice import Climbed, climb, sizes_for
from tulle.exploring._points import Point, Spec

Levels = Callable[[int, str], tuple[str, str]]
SIZES = (10, 15, 20, 30)


def climbed(levels: Levels, sizes: tuple[int, ...] = SIZES, **options: bool) -> Climbed:
    def measure(k: int, round: str) -> Point:
        privacy, use = levels(k, round)
        verdict = {
            about: {"level": level, "reason": "", "next": "", "details": []}
            for about, level in (("privacy", privacy), ("use", use))
        }
        spec = Spec(round, "shape", k=k)  # type: ignore[arg-type]
        return Point(f"{k}-{round}", spec, 100, risk=1 / k, attack="linkage", verdict=verdict)  # type: ignore[arg-type]

    return climb(sizes, measure, **options)


def told(found: Climbed) -> list[tuple[int, str]]:
    return [(row["k"], row["for"]) for row in found.rows()]


def test_the_smallest_k_that_passes_is_confirmed() -> None:
    found = climbed(lambda k, _: ("good" if k >= 20 else "caution", "good"))
    assert found.point.spec.k == 20
    assert found.point.spec.round == "whole"
    assert told(found) == [
        (10, "choosing"), (15, "choosing"), (20, "choosing"), (20, "confirming"),
    ]  # fmt: skip
    assert found.why == "k = 20 is the smallest that passes; k = 10, 15 did not"


def test_a_lucky_choice_is_not_believed() -> None:
    """k = 10 looks good to those who choose: other people do not confirm it, and 15 is judged."""
    found = climbed(lambda k, round: ("caution" if (k, round) == (10, "whole") else "good", "good"))
    assert told(found) == [(10, "choosing"), (10, "confirming"), (15, "confirming")]
    assert found.point.spec.k == 15
    assert found.passed


def test_few_releases_may_leave_open_what_more_decide() -> None:
    found = climbed(lambda _, round: ("good" if round == "whole" else "undecided", "good"))
    assert told(found) == [(10, "choosing"), (10, "confirming")]


def test_where_no_k_passes_the_safest_of_use_is_named() -> None:
    """Larger groups are not tried where these leave nothing of use."""
    found = climbed(lambda k, _: ("caution", "good" if k < 20 else "bad"))
    assert told(found)[-1] == (15, "confirming")
    assert {row["k"] for row in found.rows()} == {10, 15, 20}
    assert not found.passed
    assert found.why == "no k passes: 10, 15, 20; the best is k = 15"


def test_of_releases_that_nothing_decides_the_smallest_is_taken() -> None:
    found = climbed(lambda *_: ("undecided", "good"))
    assert found.point.spec.k == 10


def test_a_control_that_was_given_judges_one_k_only() -> None:
    """What it says of a k may not lead to another: then it would have chosen."""
    found = climbed(
        lambda _, round: ("caution" if round == "whole" else "good", "good"), fresh=False
    )
    assert told(found) == [(10, "choosing"), (10, "confirming")]


def test_sizes_leave_several_groups() -> None:
    assert sizes_for(90) == [10]
    assert sizes_for(320) == [10, 15, 20, 30]
    assert sizes_for(10_000, quick=True) == [10, 20, 50, 100]
