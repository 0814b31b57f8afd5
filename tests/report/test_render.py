"""From a dictionary to a page, to JSON and to Markdown; and what the public edition leaves out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st

from tests.report import results
from tulle._attacks import AttackResult
from tulle._charts import FIELDS, chart
from tulle._report import markdown, render, save, to_json
from tulle._report.editions import edition_of, hide_small
from tulle._report.model import completed
from tulle._report.render import bundle
from tulle._report.verdict import verdict
from tulle.errors import OutputExists, ParameterError

every_family = pytest.mark.parametrize("family", results.FAMILIES)
every_edition = pytest.mark.parametrize("edition", ["owner", "public"])


def charts(result: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    return [
        (block["chart"], block["rows"])
        for section in result["sections"]
        for block in section.get("blocks", [])
        if block["type"] == "chart"
    ]


@pytest.mark.slow
@every_family
@every_edition
def test_every_family_renders_in_every_form(family: str, edition: str) -> None:
    result = results.FAMILIES[family]()
    page = render(result, edition)
    assert page.count("<script") == 3
    assert "</script>" not in page.split('id="specs">')[1].split("</script>")[0]
    assert "src=" not in page.split("<script>")[0]
    assert json.loads(to_json(result, edition))["edition"] == edition
    assert markdown(result, edition).startswith("# ")


@pytest.mark.slow
def test_the_examples_cover_every_kind_of_chart_and_its_schema() -> None:
    drawn = {}
    for family in results.FAMILIES.values():
        drawn |= dict(charts(family()))
    drawn["attacks"] = [
        {"label": "a", **attack} for attack in results.condensed()["attacks"].values()
    ]
    assert set(drawn) == set(FIELDS)
    for kind, rows in drawn.items():
        chart(kind, rows).to_dict(validate=True)
        chart(kind, []).to_dict(validate=True)


@pytest.mark.slow
def test_text_is_escaped_on_the_page_and_in_markdown() -> None:
    page, text = render(results.condensed()), markdown(results.condensed())
    assert "Condensed &lt;people&gt; &amp; others.csv" in page
    assert "<people>" not in page
    assert "<people>" not in text
    wild = results.rules() | {"title": "a | b `c` *d* [e](f)"}
    assert "a \\| b \\`c\\` \\*d\\* \\[e\\](f)" in markdown(wild)


def test_a_command_cannot_leave_its_fence() -> None:
    wild = results.rules() | {"command": "tulle audit 'a\n````\n<script>.csv' r.csv"}
    lines = markdown(wild).split("\n")
    start = lines.index("`" * 5)
    assert lines[start + 3 :][lines[start + 3 :].index("`" * 5) :] == ["`" * 5, ""]


def test_remarks_and_verdicts_are_escaped_too() -> None:
    page, text = render(results.sketches()), markdown(results.sketches())
    assert "<li>A remark with &lt;tags&gt; &amp; a | bar.</li>" in page
    assert "- A remark with &lt;tags&gt; &amp; a \\| bar." in text
    assert "91.0\N{NO-BREAK SPACE}%" in page
    leak = AttackResult("inference:<b>", 100, 100, 0).to_dict()
    result = results.rules() | {"attacks": {"inference:<b>": leak}}
    assert "<b>" not in markdown(result)


@pytest.mark.slow
def test_a_report_without_a_control_does_not_speak_of_one() -> None:
    with_control, without = render(results.condensed()), render(results.sketches())
    for words in ("the control: the same attack", '<th scope="col">Control</th>'):
        assert words in with_control
        assert words not in without
    assert "guessing." in without


@pytest.mark.slow
def test_many_attacks_are_drawn_by_the_worst_on_each_column() -> None:
    made = [
        AttackResult(f"{known}_known_pairs:{column}", 100, known, 0)
        for known in (1, 2, 5, 10)
        for column in "abcdefgh"
    ]
    result = results.rules() | {"attacks": {attack.name: attack.to_dict() for attack in made}}
    page = render(result)
    assert "the table has all 32" in page
    drawn = json.loads(page.split('id="specs">')[1].split("</script>")[0])["chart-attacks"]
    labels = {row["label"] for row in drawn["layer"][0]["data"]["values"]}
    assert labels == {f"10 known pairs: {column}" for column in "abcdefgh"}


def test_reasons_that_a_family_wrote_stay_with_the_owner() -> None:
    given = {"level": "bad", "reason": "Codes.", "next": "-", "details": ["3 of 7 are recovered."]}
    result = results.rules() | {"verdict": {"privacy": given}}
    assert edition_of(result, "owner")["verdict"]["privacy"] == given
    assert edition_of(result, "public")["verdict"]["privacy"] == {**given, "details": []}


def test_the_bundled_vega_is_the_named_version_unchanged() -> None:
    assert bundle() == vl_convert.javascript_bundle()


def test_the_page_allows_its_own_scripts_only() -> None:
    policy = render(results.rules()).split('Content-Security-Policy" content="')[1].split('"')[0]
    assert "default-src &#39;none&#39;" in policy
    assert "script-src &#39;sha256-" in policy
    assert "unsafe-eval" not in policy
    assert "unsafe-inline" not in policy.split("style-src")[0]


@pytest.mark.slow
def test_the_public_edition_has_no_owner_parts_small_counts_seeds_or_paths() -> None:
    assert "secret-of-owner" in render(results.sites())
    assert "secret-of-owner" not in render(results.sites(), "public")
    for form in (render, markdown, to_json):
        text = form(results.condensed(), "public")
        assert "/home/me" not in text
        assert "987654" not in text
    public = json.loads(to_json(results.condensed(), "public"))
    assert public["command"] == "tulle condense people.csv -o release.csv --seed ... -k 20"
    linkage = public["attacks"]["linkage"]
    assert "successes" not in linkage
    assert "attempts" not in linkage
    assert linkage["rate"] == 0  # 4 of 400, fewer than k: rounded to a multiple of k / attempts
    rows = edition_of(results.rules(), "public")["sections"][0]["blocks"][1]["rows"]
    assert rows == [["bread → milk", "< 10"], ["tea → milk", 300]]


@pytest.mark.parametrize(
    "given, shown",
    [
        ("tulle audit /home/ann/a.csv -o/home/ann/r.html", "tulle audit a.csv -or.html"),
        (
            "tulle audit --control=/home/ann/c.csv --seed=4",
            "tulle audit --control=c.csv --seed=...",
        ),
        (r"tulle audit 'C:\Users\ann\a.csv' -k10", "tulle audit a.csv -k10"),
        ("tulle audit sqlite:////home/ann/x.db#t", "tulle audit 'x.db#t'"),
        ("tulle audit 'unbalanced", ""),
    ],
)
def test_a_public_command_names_no_folder(given: str, shown: str) -> None:
    public = edition_of(results.rules() | {"command": given}, "public")
    assert public["command"] == shown


def test_beside_a_hidden_count_no_share_is_told() -> None:
    rows = [["1", np.int64(3), np.float32(0.0075)], ["2", 397, 0.9925]]
    table = {"type": "table", "columns": ["n", "records", "share"], "rows": rows}
    result = {
        "title": "t",
        "sections": [{"title": "s", "blocks": [table | {"counts": ["records"]}]}],
    }
    shown = edition_of(result, "public")["sections"][0]["blocks"][0]["rows"]
    assert shown == [["1", "< 10", None], ["2", 397, 0.993]]


@pytest.mark.guarantee
@given(st.lists(st.integers(0, 60), min_size=1, max_size=12), st.integers(2, 30))
def test_hidden_cells_cannot_be_had_by_subtraction(counts: list[int], k: int) -> None:
    total = sum(counts) or 1
    rows = [{"label": i, "count": c, "original": c / total} for i, c in enumerate(counts)]
    shown = hide_small(rows, k, "original")
    hidden = [c for c, row in zip(counts, shown) if row["original"] is None]
    assert all(c >= k for c, row in zip(counts, shown) if row["original"] is not None)
    assert not hidden or sum(hidden) >= k or len(hidden) == len(counts)
    assert rows[0]["count"] == counts[0]  # the input stays


def test_both_editions_give_the_same_verdict() -> None:
    for family in results.FAMILIES.values():
        editions = [edition_of(family(), edition)["verdict"] for edition in ("owner", "public")]
        for about in ("privacy", "use"):
            assert editions[0][about]["level"] == editions[1][about]["level"]


def attack(
    risk: float, low: float = 0.5, control: float | None = 0.0, high: float | None = None
) -> dict[str, Any]:
    return {
        "rate": risk,
        "risk": risk,
        "risk_low": low,
        "risk_high": risk if high is None else high,
        "baseline": 0.0,
        "control": control,
        "failed": False,
    }


def promise(*, holds: bool) -> dict[str, Any]:
    return {"text": "", "rows": [{"name": "k", "asked": 5, "found": 4, "holds": holds}]}


def judged(**parts: Any) -> str:
    return verdict(completed({"title": "t", **parts}))["privacy"]["level"]


@pytest.mark.parametrize(
    "result, level",
    [
        ({}, "undecided"),
        ({"attacks": {"linkage": attack(0.9)}}, "bad"),
        ({"attacks": {"linkage": attack(0.9, low=-0.1)}}, "undecided"),
        ({"attacks": {"linkage": attack(0.0, low=-0.2, high=0.2)}}, "undecided"),
        ({"attacks": {"inference:x": attack(0.0, low=-0.2, high=0.2, control=None)}}, "good"),
        ({"attacks": {"linkage": attack(0.05, low=0.04)}}, "caution"),
        ({"attacks": {"linkage": attack(0.01, low=0.009)}}, "good"),
        ({"attacks": {"membership": attack(0.3, low=0.2)}}, "caution"),
        ({"attacks": {"linkage": attack(0.9, control=None)}}, "bad"),
        ({"attacks": {"linkage": attack(0.25, low=0.2, control=None)}}, "caution"),
        ({"attacks": {"inference:x": attack(0.9, control=None)}}, "caution"),
        ({"attacks": {"sketch_linkage:x": attack(0.9, control=None)}}, "bad"),
        ({"attacks": {"membership": attack(0.9)}}, "bad"),
        ({"guarantee": promise(holds=False)}, "bad"),
        ({"guarantee": promise(holds=True)}, "undecided"),
        ({"gates": [{"name": "g", "limit": 1, "value": 2.0, "holds": False}]}, "bad"),
        ({"verdict": {"privacy": {"level": "caution", "reason": "t"}}}, "caution"),
    ],
)
def test_the_verdict_follows_guarantee_gates_and_attacks(result: dict, level: str) -> None:
    assert judged(**result) == level


def test_privacy_and_use_advise_one_step() -> None:
    """Larger groups for the one and smaller ones for the other would send people in circles."""
    told = {"metrics": {"propensity_auc": 0.95}, "where": {"propensity_auc": "column 'birth'"}}
    leaks = {"attacks": {"membership": attack(0.3, low=0.2)}}
    both = verdict(completed({"title": "t", **told, **leaks}))
    assert both["privacy"]["next"] == both["use"]["next"]
    assert "column 'birth'" in both["use"]["next"]
    read = {"attacks": {"inference:pay (insider)": attack(0.3, low=0.2)}}
    inferred = verdict(completed({"title": "t", "metrics": {"accuracy_ratio": 0.5}, **read}))
    assert "column 'pay'" in inferred["privacy"]["next"]
    assert inferred["privacy"]["next"] == inferred["use"]["next"]
    alone = verdict(completed({"title": "t", **leaks}))["privacy"]["next"]
    assert alone.startswith("Take larger groups")
    few = verdict(completed({"title": "t", **told, "smallest_group": 3}))
    assert few["privacy"]["next"] == few["use"]["next"]


def test_rules_are_not_taken_further_down_and_up() -> None:
    found = {"metrics": {"misses_cost": 0.5}, "attacks": {"rule_recovery": attack(0.3, low=0.2)}}
    both = verdict(completed({"title": "t", **found}))
    assert both["privacy"]["next"] == both["use"]["next"]
    assert "best" not in both["use"]["next"]


@pytest.mark.parametrize(
    "people, apart, words",
    [
        (1131, 280, "more than this table has"),
        (9000, 100, "keep about"),
        (9000, 3000, "--attempts"),
        (None, None, "keep about"),
    ],
)
def test_nothing_is_advised_that_the_table_cannot_do(people: Any, apart: Any, words: str) -> None:
    close = attack(0.09, low=-0.2, high=0.2) | {"rate": 0.5, "control": 0.41}
    found = {"attacks": {"linkage": close}, "people": people, "apart": apart}
    assert words in verdict(completed({"title": "t", **found}))["privacy"]["next"].lower()


def test_nothing_found_in_what_is_of_no_use_is_nothing_decided() -> None:
    quiet = {"attacks": {"linkage": attack(0.0, low=-0.01, high=0.01)}}
    assert judged(**quiet, metrics={"propensity_auc": 0.6}) == "good"
    both = verdict(completed({"title": "t", **quiet, "metrics": {"propensity_auc": 0.99}}))
    assert both["privacy"]["level"] == "undecided"
    assert both["use"]["reason"] in both["privacy"]["reason"]
    assert judged(**quiet, metrics={"misses_cost": 0.9}) == "good"  # of baskets, which are alike


def test_many_attacks_need_a_larger_excess() -> None:
    lucky = attack(0.03, low=0.005)
    assert judged(attacks={"linkage": lucky}) == "caution"
    many = {f"inference:{i}": attack(0.0, low=-0.03) for i in range(19)}
    assert judged(attacks={"linkage": lucky, **many}) == "good"


def test_a_wrong_chart_is_named() -> None:
    with pytest.raises(ParameterError, match="'count'"):
        chart("histogram", [{"label": "a", "original": 1, "release": 1}])
    with pytest.raises(ParameterError, match="'histogram'"):
        chart("histogramm", [])
    with pytest.raises(ParameterError, match="edition"):
        render(results.rules(), "press")


def test_saving_follows_the_ending_and_never_replaces_unasked(tmp_path: Path) -> None:
    for ending in (".html", ".json", ".md"):
        assert save(results.rules(), tmp_path / f"report{ending}").stat().st_size > 200
    with pytest.raises(OutputExists):
        save(results.rules(), tmp_path / "report.md")
    save(results.rules(), tmp_path / "report.md", force=True)
    with pytest.raises(ParameterError):
        save(results.rules(), tmp_path / "report.pdf")


def test_names_that_are_no_text_and_seeds_are_written(tmp_path: Path) -> None:
    odd = results.rules() | {"title": "caf\udce9.csv", "provenance": {"audit seed": 1234567}}
    for ending in (".html", ".json", ".md"):
        text = save(odd, tmp_path / f"odd{ending}").read_text(encoding="utf-8")
        assert "caf?.csv" in text
        assert "1234567" in text  # as it must be typed


def test_what_is_not_quite_perfect_is_never_written_as_one() -> None:
    close = results.rules() | {"metrics": {"covariance_compatibility": 0.99996}}
    assert "> 0.9999" in markdown(close).replace("&gt;", ">")
    assert "| Covariance compatibility | 0.999 |" in markdown(close, "public")
    exact = results.rules() | {"metrics": {"covariance_compatibility": 1.0}}
    assert "| Covariance compatibility | 1 |" in markdown(exact, "public")


def test_a_figure_that_is_unknown_does_not_end_a_report() -> None:
    holes = results.sketches()
    holes["sections"][0]["blocks"][0]["rows"][0]["measured"] = float("nan")
    assert "Error" in render(holes)


def test_numbers_that_json_does_not_know_become_null() -> None:
    odd = results.rules() | {"metrics": {"hiding_failure": float("nan"), "x": float("inf")}}
    assert json.loads(to_json(odd))["metrics"] == {"hiding_failure": None, "x": None}
    assert "nan" not in render(odd).split("<script>")[0].lower().replace("nance", "")
