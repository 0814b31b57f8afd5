"""What happens where a verdict is bad, and where somebody accepts the risk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result

from tulle import audit
from tulle._commands._decision import Refused, check_accepted, decided, public_verdict
from tulle.cli import tulle
from tulle.errors import ParameterError
from tulle.releases import read_manifest

REASON = "Dr Doe accepts it: the people are made up"


def people(n: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    size = rng.normal(170, 10, n)
    return pl.DataFrame(
        {
            "height": np.round(size, 1),
            "weight": np.round(size - 100 + rng.normal(0, 8, n), 1),
            "income": np.round(rng.lognormal(8, 0.4, n), 2),
            "town": rng.choice(["Bern", "Chur", "Genf", "Ulm"], n),
        }
    )


def run(*arguments: object) -> Result:
    return CliRunner().invoke(tulle, [str(argument) for argument in arguments])


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A condenser that releases the people themselves."""
    from tulle._commands import condense

    real = condense.make_release
    monkeypatch.setattr(condense, "make_release", lambda *given: (real(*given)[0], given[0]))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    people(400, 0).write_csv(tmp_path / "people.csv")
    return tmp_path / "people.csv"


@pytest.mark.slow
@pytest.mark.usefixtures("copied")
def test_a_bad_release_is_not_written_but_its_report_is(source: Path, tmp_path: Path) -> None:
    asked = ["condense", source, "-o", tmp_path / "r.csv", "-k", 10, "--holdout", "25%"]
    refused = run(*asked, "--seed", 1, "--json", "--report", tmp_path / "r.html")
    assert refused.exit_code == 1
    assert isinstance(refused.exception, Refused)
    told = json.loads(refused.stdout)
    assert told["written"] is False
    assert told["verdict"]["privacy"]["level"] == "bad"
    assert all(
        told["verdict"][about][key] for about in told["verdict"] for key in ("reason", "next")
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.csv", "r.html"]
    assert "Privacy: <span" in (tmp_path / "r.html").read_text()
    spoken = run(*asked, "--seed", 1)
    assert "privacy bad: Do not release this" in " ".join(spoken.stdout.split())
    assert "--accept-risk REASON" in str(spoken.exception)
    assert not (tmp_path / "r.csv").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("copied")
def test_an_accepted_risk_stays_in_manifest_and_report(source: Path, tmp_path: Path) -> None:
    made = run("condense", source, "-o", tmp_path / "r.csv", "-k", 10, "--seed", 1, "--json",
               "--accept-risk", REASON, "--report", tmp_path / "r.json")  # fmt: skip
    assert made.exit_code == 0, made.output
    manifest = read_manifest(tmp_path / "r.csv")
    assert manifest.accepted_risk == REASON
    assert manifest.verdict["privacy"]["level"] == "bad"
    assert json.loads((tmp_path / "r.json").read_text())["accepted_risk"] == REASON
    audited = run("audit", source, tmp_path / "r.csv", "-o", tmp_path / "a.json", "--json")
    assert audited.exit_code == 0, audited.exception  # somebody took the risk, and said why
    assert json.loads(audited.stdout)["verdict"]["privacy"]["level"] == "bad"
    assert json.loads((tmp_path / "a.json").read_text())["accepted_risk"] == REASON


@pytest.mark.slow
def test_a_condensed_table_gets_its_verdict_everywhere(source: Path, tmp_path: Path) -> None:
    made = run("condense", source, "-o", tmp_path / "r.csv", "-k", 20, "--holdout", "25%",
               "--seed", 3, "--json", "--accept-risk", "only if need be")  # fmt: skip
    assert made.exit_code == 0, made.output
    verdict = json.loads(made.stdout)["verdict"]
    manifest = read_manifest(tmp_path / "r.csv")
    for about in ("privacy", "use"):
        assert verdict[about]["level"] in ("good", "caution", "undecided")
        assert verdict[about]["level"] == manifest.verdict[about]["level"]
        assert "details" not in manifest.verdict[about]


@pytest.mark.slow
def test_without_an_audit_nothing_is_decided(source: Path, tmp_path: Path) -> None:
    made = run("condense", source, "-o", tmp_path / "r.csv", "-k", 20, "--no-audit", "--json")
    verdict = json.loads(made.stdout)["verdict"]
    assert verdict["privacy"]["level"] == "undecided"
    assert "--no-audit" in verdict["privacy"]["next"]
    assert verdict["use"]["level"] in ("good", "caution", "bad")


@pytest.mark.slow
def test_tiny_groups_are_never_called_good(tmp_path: Path) -> None:
    people(400, 0).write_csv(tmp_path / "people.csv")
    made = run("condense", tmp_path / "people.csv", "-o", tmp_path / "r.csv", "-k", 3, "--seed", 1,
               "--holdout", "25%", "--json", "--accept-risk", REASON)  # fmt: skip
    assert json.loads(made.stdout)["verdict"]["privacy"]["level"] != "good"


@pytest.mark.parametrize("reason", ["", "   ", "\n", "x" * 1001])
def test_a_reason_must_say_something(reason: str) -> None:
    with pytest.raises(ParameterError, match="--accept-risk"):
        check_accepted(reason)
    assert check_accepted(None) == ""
    assert check_accepted("  who   and why ") == "who and why"


@pytest.mark.slow
def test_a_manifest_quotes_rounded_figures_and_of_few_people_none() -> None:
    table, control = people(300, 0), people(300, 1)
    leak = audit(table, table, control=control, random_state=0, k=50)
    assert decided(leak, REASON)["privacy"]["level"] == "bad"
    with pytest.raises(Refused):
        decided(leak, "")
    public = public_verdict(leak)
    assert public["privacy"]["level"] == "bad"
    assert "details" not in public["privacy"]
    few = audit(table[:30], table[:30], random_state=0, k=50)
    assert public_verdict(few) == {
        about: {"level": few.verdict[about]["level"]} for about in ("privacy", "use")
    }


@pytest.mark.slow
def test_a_preset_names_its_source_and_fails_smaller_groups(source: Path, tmp_path: Path) -> None:
    made = run("condense", source, "-o", tmp_path / "r.csv", "-k", 8, "--no-audit", "--seed", 1)
    assert made.exit_code == 0, made.output
    asked = ["audit", source, tmp_path / "r.csv", "--attempts", 30, "--seed", 1]
    fine = run(*asked, "--preset", 5)
    assert fine.exit_code == 0, fine.output
    assert "custom, not law" in " ".join(fine.output.split())
    small = run(*asked, "--preset", 12)
    assert small.exit_code == 1
    assert "smallest_group is 8, the limit is 12" in str(small.exception)
    people(400, 0).write_csv(tmp_path / "other.csv")
    unknown = run("audit", source, tmp_path / "other.csv", "--preset", 12, "--attempts", 30)
    assert isinstance(unknown.exception, ParameterError)


@pytest.mark.slow
def test_the_context_is_on_page_one_and_empty_fields_are_shown(
    source: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "p.toml"
    policy.write_text('[context]\nrecipient = "the <registry>"\nuntil = 2027-12-31\npurpose = ""\n')
    report = tmp_path / "r.html"
    made = run("condense", source, "-o", tmp_path / "r.csv", "-k", 20, "--policy", policy,
               "--report", report, "--seed", 1)  # fmt: skip
    assert made.exit_code == 0, made.output
    first = report.read_text().split('id="context"')[0]
    assert "the &lt;registry&gt;" in first
    assert "2027-12-31" in first
    assert first.count('<em class="empty">empty</em>') == 4
    page = report.read_text()
    order = [
        page.index(f'id="{part}"') for part in ("verdict", "context", "data", "identifiability")
    ]
    assert order == sorted(order)
    assert page.index('id="governance"') > order[-1]


@pytest.mark.slow
def test_three_attackers_state_what_they_know() -> None:
    table, control = people(300, 0), people(300, 1)
    roles = {"height": "quasi-identifier", "weight": "quasi-identifier"} | {
        "town": "quasi-identifier",
        "income": "sensitive",
    }
    found = audit(table, control, control=people(300, 2), policy=roles, random_state=0).to_dict()
    assert {row["name"]: row["knows"] for row in found["attackers"]} == {
        "register": "height, weight, town",
        "insider": "all 4 columns, but for the one to infer",
    }
    assert {"linkage", "linkage:insider", "inference:income", "inference:income (insider)"} <= set(
        found["attacks"]
    )
    wide = table.with_columns(age=pl.Series(range(300)))
    blind = audit(wide, wide, random_state=0, attempts=20).to_dict()
    assert [row["name"] for row in blind["attackers"]] == ["insider", "neighbour"]
    assert len(blind["attackers"][1]["knows"].split(", ")) == 3
