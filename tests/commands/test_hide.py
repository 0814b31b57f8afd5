from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner, Result

from tests.rules.test_best import shop
from tulle._commands.hide import hide
from tulle._commands.mine import mine
from tulle.cli import tulle
from tulle.errors import DataError, ParameterError, PolicyError, PrivacyError, TulleError
from tulle.releases import verify_release
from tulle.rules import hider
from tulle.rules._sensitive import Edits
from tulle.transactions import read_fimi

LIMITS: dict[str, Any] = {"min_support": "3%", "min_confidence": "50%", "seed": 0}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "baskets.dat"
    path.write_text("".join(" ".join(map(str, basket)) + "\n" for basket in shop(0)))
    return path


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.txt"
    path.write_text("0, 1 -> 2\n3 -> 4\n")
    return path


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(tulle, ["hide", *map(str, arguments)])


@pytest.mark.slow
def test_a_release_with_manifest_and_report(source: Path, secret: Path, tmp_path: Path) -> None:
    output, report = tmp_path / "shared.dat", tmp_path / "report.html"
    run = invoke(
        source, "--rules", secret, "--min-support", "3%", "--min-confidence", "50%",
        "-o", output, "--report", report, "--seed", "0",
    )  # fmt: skip
    assert run.exit_code == 0, run.output
    assert "0, 1 -> 2" in run.output
    assert "misses cost" in run.output
    assert len(read_fimi(output)) == 400
    assert all(row["holds"] for row in verify_release(output))
    manifest = (tmp_path / "shared.dat.manifest.json").read_text()
    found = json.loads(manifest)
    assert found["parameters"]["rules"] == 2
    assert found["counts"]["hiding_failure"] == 0
    assert "->" not in manifest, "the manifest travels with the release and must not name a rule"
    page = report.read_text()
    assert "0, 1 -> 2" in page.replace("\\u003e", ">")
    assert "Recovery of hidden rules" in page
    assert {path.name for path in tmp_path.iterdir()} == {
        "baskets.dat", "secret.txt", "shared.dat", "shared.dat.manifest.json", "report.html",
    }  # fmt: skip


def test_the_public_edition_names_no_rule(
    source: Path, secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tulle.auditing.audit import Audit

    pages: list[str] = []
    monkeypatch.setattr(Audit, "save", lambda self, *a, **k: pages.append(self.html("public")))
    hide(
        source, tmp_path / "o.dat", rules=secret, method="swa", report=tmp_path / "r.html", **LIMITS
    )
    assert pages
    assert "The hidden rules" not in pages[0]
    assert "Recovery of hidden rules" not in pages[0]
    assert "3 -> 4" not in pages[0].replace("\\u003e", ">").replace("&gt;", ">")


def test_same_seed_same_bytes(source: Path, secret: Path, tmp_path: Path) -> None:
    for name in ("a.dat", "b.dat"):
        hide(source, tmp_path / name, rules=secret, method="swa", shuffle=True, **LIMITS)
    assert (tmp_path / "a.dat").read_bytes() == (tmp_path / "b.dat").read_bytes()


def test_stream_equals_swa_and_touches_nothing_else(
    source: Path, secret: Path, tmp_path: Path
) -> None:
    run = invoke(
        source, "--rules", secret, "--min-support", "3%", "--min-confidence", "50%",
        "-o", tmp_path / "s.dat", "--stream", "--window", 50, "--seed", 0, "--json",
    )  # fmt: skip
    assert run.exit_code == 0, run.output
    assert json.loads(run.output)["rules_hidden"] == 2
    hide(source, tmp_path / "t.dat", rules=secret, method="swa", window=50, **LIMITS)
    assert (tmp_path / "s.dat").read_bytes() == (tmp_path / "t.dat").read_bytes()
    found = json.loads((tmp_path / "s.dat.manifest.json").read_text())
    assert all(found["verified"].values())
    assert found["counts"]["baskets"] == found["source"]["records"] == 400
    assert found["parameters"]["window"] == 50


def test_lists_of_words_are_streamed_from_parquet_to_parquet(
    source: Path, secret: Path, tmp_path: Path
) -> None:
    import polars as pl

    lines = [line.split() for line in source.read_text().splitlines()]
    words = pl.DataFrame({"bought": [[f"item {item}" for item in line] for line in lines]})
    words[:-1].vstack(pl.DataFrame({"bought": [[]]}, schema=words.schema)).write_parquet(
        tmp_path / "b.parquet"
    )
    rules = tmp_path / "words.txt"
    rules.write_text(re.sub(r"(\d+)(?=[^%\d]|$)", r"item \1", secret.read_text()))
    asked: dict[str, Any] = {"stream": True, "window": 50, "seed": 0, **LIMITS}
    made = hide(tmp_path / "b.parquet", tmp_path / "r.parquet", rules=rules, **asked)
    numbers = hide(source, tmp_path / "r.dat", rules=secret, **asked)
    assert made.summary["rules_hidden"] == numbers.summary["rules_hidden"]
    found = pl.read_parquet(tmp_path / "r.parquet")
    assert found.schema == words.schema
    assert found.height == len(lines)
    assert found["bought"].list.len().sum() < words["bought"].list.len().sum()
    with pytest.raises(ParameterError, match="--stream"):
        hide(source, tmp_path / "r2.parquet", rules=secret, **asked)


def test_stream_fails_closed(
    source: Path, secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np

    from tulle.rules import _stream as stream

    lazy = lambda block, *rest, **options: np.ones(len(block.items), dtype=bool)  # noqa: E731
    monkeypatch.setattr(stream, "slide", lazy)
    with pytest.raises(PrivacyError):
        hide(source, tmp_path / "s.dat", rules=secret, stream=True, **LIMITS)
    assert not list(tmp_path.glob("s.dat*"))


def test_nothing_is_written_when_a_rule_stays(
    source: Path, secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(hider.SIMPLE, "minfia", lambda s, rng: Edits.none(s.baskets))
    with pytest.raises(PrivacyError):
        hide(source, tmp_path / "s.dat", rules=secret, method="minfia", **LIMITS)
    assert not list(tmp_path.glob("s.dat*"))


def test_tables_in_and_out(secret: Path, tmp_path: Path) -> None:
    pairs = [(f"t{row}", item, 1.5) for row, basket in enumerate(shop(0)) for item in basket]
    long = tmp_path / "long.csv"
    pl.DataFrame(pairs, schema=["till", "what", "price"], orient="row").write_csv(long)
    wide = tmp_path / "wide.parquet"
    pl.DataFrame({str(n): [int(n in b) for b in shop(0)] for n in range(9)}).write_parquet(wide)
    options = {"rules": secret, "method": "minfia", **LIMITS}
    hide(long, tmp_path / "l.csv", basket="till", item="what", **options)
    released = pl.read_csv(tmp_path / "l.csv")
    assert released.columns == ["till", "what"]
    assert released.height < len(pairs)
    hide(wide, tmp_path / "w.parquet", shuffle=True, **options)
    assert pl.read_parquet(tmp_path / "w.parquet").sum().sum_horizontal().item() == released.height
    hide(wide, tmp_path / "w.dat.gz", **options)
    lines = gzip.decompress((tmp_path / "w.dat.gz").read_bytes()).decode().splitlines()
    assert sum(len(line.split()) for line in lines) == released.height
    lower = {**options, "min_support": "0.5%", "min_confidence": "5%"}
    hide(tmp_path / "w.dat.gz", tmp_path / "again.csv", **lower)
    assert pl.read_csv(tmp_path / "again.csv").columns == ["basket", "item"]


def test_empty_baskets_do_not_reach_a_file_of_lines_and_hide_nothing(
    secret: Path, tmp_path: Path
) -> None:
    rows = [*shop(0), *([[]] * 100)]
    wide = tmp_path / "wide.parquet"
    pl.DataFrame({str(n): [int(n in b) for b in rows] for n in range(9)}).write_parquet(wide)
    made = hide(wide, tmp_path / "s.dat", rules=secret, method="swa", **LIMITS)
    assert made.summary["baskets_empty"] == 100
    assert "empty baskets" in made.notes[0]
    released = read_fimi(tmp_path / "s.dat")
    assert len(released) == 400
    for rule in (["0", "1", "2"], ["3", "4"]):
        codes = [released.index[int(item)] for item in rule]
        assert len(released.rows_with(codes)) < 0.03 * 400


def test_the_manifest_says_what_was_asked(source: Path, secret: Path, tmp_path: Path) -> None:
    def manifest(name: str, **options: Any) -> dict[str, Any]:
        hide(source, tmp_path / name, rules=secret, method="swa", **{**LIMITS, **options})
        return json.loads((tmp_path / f"{name}.manifest.json").read_text())

    found = manifest("a.dat")
    assert found["guarantee"]["min_support"] == "3%"
    assert list(found["verified"]) == ["every rule is below its threshold in the release"]
    found = manifest("b.dat", disclosure="100%", accept_risk="the recipient knows these rules")
    assert found["verdict"]["privacy"]["level"] == "bad"
    assert found["accepted_risk"] == "the recipient knows these rules"
    assert found["guarantee"] == {"disclosure": "100%", "rules_with_their_own": 0}
    assert "share of its baskets that may stay" in next(iter(found["verified"]))
    secret.write_text("3 -> 4 ; support=2%\n0, 1 -> 2\n")
    assert manifest("c.dat")["guarantee"]["rules_with_their_own"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
def test_thresholds_that_no_rule_reaches_are_an_error_with_the_likely_meaning(
    source: Path, secret: Path, tmp_path: Path, stream: bool
) -> None:
    asked: dict[str, Any] = {"rules": secret, "stream": stream, "min_confidence": "5%", "seed": 0}
    with pytest.raises(DataError, match=r"2 rules .* Did you mean --min-support 0.9%\?"):
        hide(source, tmp_path / "s.dat", min_support="0.9", **asked)
    with pytest.raises(DataError, match="2 rules") as told:
        hide(source, tmp_path / "s.dat", min_support="90%", **asked)
    assert "Did you mean" not in str(told.value)
    assert not (tmp_path / "s.dat").exists()
    secret.write_text("3 -> 4\n7 -> 8\n")
    made = hide(source, tmp_path / "s.dat", min_support="12%", **asked)
    assert (made.summary["rules_hidden"], made.summary["rules_below_already"]) == (1, 1)
    assert stream or "1 rule was below the thresholds" in made.notes[0]


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("own", ["disclosure=95%", "support=90%"])
def test_a_rule_that_its_own_limit_leaves_to_a_miner_is_not_hidden(
    source: Path, secret: Path, tmp_path: Path, own: str, stream: bool
) -> None:
    secret.write_text(f"0, 1 -> 2\n3 -> 4 ; {own}\n")
    asked = {**LIMITS, "rules": secret, "stream": stream}
    with pytest.raises(PrivacyError, match="1 of 2 rules can still be mined"):
        hide(source, tmp_path / "s.dat", **asked)
    assert not (tmp_path / "s.dat").exists()
    made = hide(source, tmp_path / "s.dat", accept_risk="known anyway", **asked)
    assert (made.summary["rules_hidden"], made.summary["rules_still_found"]) == (1, 1)
    assert made.audit.verdict["privacy"]["level"] == "bad"
    found = json.loads((tmp_path / "s.dat.manifest.json").read_text())
    assert (found["verdict"]["privacy"]["level"], found["accepted_risk"]) == ("bad", "known anyway")


@pytest.mark.slow
def test_the_manifest_says_the_same_of_privacy_whatever_the_attack_found(
    source: Path, secret: Path, tmp_path: Path
) -> None:
    found = set()
    for margin in ("0%", "60%"):
        made = hide(source, tmp_path / f"{margin}.dat", rules=secret, margin=margin, **LIMITS)
        assert made.audit.verdict["privacy"]["level"] in ("good", "caution", "undecided")
        manifest = json.loads((tmp_path / f"{margin}.dat.manifest.json").read_text())
        found.add(json.dumps(manifest["verdict"]["privacy"]))
        assert "recovery" not in json.dumps(manifest["verdict"]).lower()
    assert len(found) == 1


@pytest.mark.parametrize(("support", "limit"), [("12", 12 / 400), ("8/3%", 11 / 400)])
def test_the_chart_marks_the_limit_of_each_rule(
    source: Path, secret: Path, tmp_path: Path, support: str, limit: float
) -> None:
    secret.write_text("0, 1 -> 2 ; confidence=20%\n3 -> 4 ; disclosure=25%\n")
    options = {**LIMITS, "min_support": support, "report": tmp_path / "r.json"}
    hide(source, tmp_path / "s.dat", rules=secret, method="swa", margin=0, **options)
    sections = json.loads((tmp_path / "r.json").read_text())["sections"]
    section = next(section for section in sections if section["id"] == "rules")
    marks = [row["limit"] for row in section["blocks"][0]["rows"]]
    assert marks[0] == pytest.approx(limit)
    assert marks[1] == 0.2
    assert marks[3] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 5}, "--window.*--method"),
        ({"support_of": "antecedent"}, "--support-of.*--choose"),
        ({"victim": "window", "method": "iga"}, "--victim.*--method"),
        ({"stream": True, "method": "best"}, "--method"),
        ({"stream": True, "victim": "widow"}, "'window'"),
        ({"shuffle": "no"}, "shuffle"),
        ({"stream": True, "basket": "a", "item": "b"}, "columns"),
        ({"stream": True, "min_support": None}, "min_support"),
    ],
)
def test_options_that_would_do_nothing_are_refused(
    source: Path, secret: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        hide(source, tmp_path / "s.dat", rules=secret, **{**LIMITS, **options})
    assert not list(tmp_path.glob("s.dat*"))


@pytest.mark.slow
def test_names_with_commas_can_be_hidden(tmp_path: Path) -> None:
    rows = [(n, what) for n in range(9) for what in ("milk, whole", "beer #3")] + [(9, "tea")]
    long, secret = tmp_path / "long.csv", tmp_path / "secret.txt"
    pl.DataFrame(rows, schema=["till", "what"], orient="row").write_csv(long)
    secret.write_text('"milk, whole" -> "beer #3"  # both names are odd\n')
    made = hide(long, tmp_path / "o.csv", rules=secret, min_support=3, margin=0, seed=0)
    assert made.tables["rules"][0]["rule"] == '"milk, whole" -> "beer #3"'
    assert made.tables["rules"][0]["support_after"] == 0.2


def test_policy(source: Path, secret: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[hide]\nmethod = "iga"\nmin_support = "3%"\nmin_confidence = 0.5\n')
    hide(source, tmp_path / "s.dat", rules=secret, policy=policy)
    found = json.loads((tmp_path / "s.dat.manifest.json").read_text())
    assert found["parameters"]["method"] == "iga"
    policy.write_text('[hide]\nmethd = "iga"\n')
    with pytest.raises(PolicyError, match="'method'"):
        hide(source, tmp_path / "t.dat", rules=secret, policy=policy)


@pytest.mark.parametrize(
    ("baskets", "rules", "options", "error"),
    [
        ("", "0 -> 1", {}, DataError),
        ("1 2\n\n", "1 -> 2", {}, DataError),
        ("1 -2\n", "1 -> 2", {}, DataError),
        ("1 99999999999\n", "1 -> 2", {}, DataError),
        ("1 2\n1 2\n", "1 -> 2", {}, DataError),
        ("1 2\n3\n", "1 -> 4", {}, DataError),
        ("1 2\n3\n", "1 -> 3", {}, DataError),
        ("1 2\n3\n", "1 -> 2", {"disclosure": "150%"}, ParameterError),
        ("1 2\n3\n", "1 -> 2", {"min_support": "0"}, ParameterError),
        ("1 2\n3\n", "1 -> 2", {"window": 0}, ParameterError),
        ("1 2\n3\n", "1 -> 2", {"stream": True, "window": 0}, ParameterError),
        ("1 2\n3\n", "1 -> 2", {"stream": True, "shuffle": True}, ParameterError),
        ("1 2\n3\n", "1 -> 2", {"stream": True, "method": "iga"}, ParameterError),
        ("1 2\n1 2\n3\n", "1 -> 2\nkeep: 1, 2", {"min_support": 2}, DataError),
    ],
)
def test_bad_input_leaves_nothing_behind(
    tmp_path: Path, baskets: str, rules: str, options: dict[str, Any], error: type[TulleError]
) -> None:
    source, secret = tmp_path / "b.dat", tmp_path / "secret.txt"
    source.write_text(baskets)
    secret.write_text(rules)
    given = {"method": "swa", "min_support": 1, "min_confidence": 0.5, **options}
    with pytest.raises(error):
        hide(source, tmp_path / "out.dat", rules=secret, **given)
    assert not list(tmp_path.glob("*out*"))


def test_the_source_is_not_overwritten(source: Path, secret: Path) -> None:
    with pytest.raises(TulleError, match="source"):
        hide(source, source, rules=secret, force=True, **LIMITS)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tulle.errors.PrivacyWarning")
def test_items_may_be_added_if_asked(source: Path, secret: Path, tmp_path: Path) -> None:
    secret.write_text("0, 1 -> 2\n")  # baskets that hold a part of it are given the rest
    run = invoke(
        source, "--rules", secret, "--min-support", "3%", "--min-confidence", "60%",
        "-o", tmp_path / "s.dat", "--method", "algo1a", "--seed", 0,
    )  # fmt: skip
    assert run.exit_code == 0, run.output
    assert "items may have been added" in " ".join(run.output.split())


@pytest.mark.parametrize("report", ["r.txt", "s.dat"])
def test_the_report_has_a_name_of_its_own(
    source: Path, secret: Path, tmp_path: Path, report: str
) -> None:
    with pytest.raises(ParameterError, match="report"):
        hide(source, tmp_path / "s.dat", rules=secret, report=tmp_path / report, **LIMITS)
    assert not list(tmp_path.glob("s.dat*"))


def test_a_blocked_release_can_be_mined(source: Path, secret: Path, tmp_path: Path) -> None:
    released = tmp_path / "blocked.dat"
    hide(source, released, rules=secret, method="blocking", **LIMITS)
    read = read_fimi(released)
    assert read.unknown is not None
    assert len(read.unknown.items) > 0
    mined = mine(released, min_support="3%", min_confidence="50%")
    assert mined.summary["blocked_cells"] == len(read.unknown.items)
    found = {(row["antecedent"], row["consequent"]) for row in mined.tables["the first"]}
    assert not found & {("0, 1", "2"), ("3", "4")}


def test_the_middle_of_blocked_intervals_is_below_unless_the_lower_end_is_asked_for(
    source: Path, secret: Path, tmp_path: Path
) -> None:
    cells = {}
    for interval in (None, "middle", "lower"):
        made = hide(
            source, tmp_path / f"{interval}.dat",
            rules=secret, method="blocking", interval=interval, **LIMITS,
        )  # fmt: skip
        cells[interval] = made.summary["dif"]
    assert cells[None] == cells["middle"] != cells["lower"]


@pytest.mark.parametrize("scenario", ["S1", "S2", "S3", "S4"])
def test_rules_are_chosen_by_a_scenario(source: Path, tmp_path: Path, scenario: str) -> None:
    made = hide(source, tmp_path / "r.dat", choose=f"{scenario}:2", **LIMITS)
    assert made.summary["rules_hidden"] == 2


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, "--rules"),
        ({"choose": "S2", "rules": "secret.txt"}, "--rules"),
        ({"choose": "S9"}, "--choose must be one of S1, S2, S3, S4"),
        ({"choose": "S2", "min_confidence": None}, "--min-confidence is needed"),
        ({"choose": "S2", "interval": "lower"}, "--interval is for --method blocking"),
        ({"choose": "S2", "lookahead": "printed"}, "--lookahead is for --method swa"),
    ],
)
def test_a_choice_that_cannot_be_made_is_refused(
    source: Path, secret: Path, tmp_path: Path, asked: dict[str, Any], words: str
) -> None:
    if "rules" in asked:
        asked = asked | {"rules": secret}
    with pytest.raises(ParameterError) as error:
        hide(source, tmp_path / "r.dat", **LIMITS | asked)
    assert words in str(error.value)


def test_look_ahead_as_printed(source: Path, secret: Path, tmp_path: Path) -> None:
    found = {}
    for lookahead in ("always", "printed"):
        output = tmp_path / f"{lookahead}.dat"
        run = invoke(
            source, "--rules", secret, "--method", "swa", "--lookahead", lookahead,
            "--disclosure", "20%", "-o", output, "--seed", "0", "--accept-risk", "a trial",
        )  # fmt: skip
        assert run.exit_code == 0, run.output
        found[lookahead] = len(read_fimi(output).items)
    assert found["printed"] <= found["always"]
