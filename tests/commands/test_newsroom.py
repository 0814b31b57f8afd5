"""A newsroom's way: texts with topics to sketches that a miner learns from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result
from scipy.sparse import csr_array

from tulle import Sketches, SketchKNeighborsClassifier
from tulle._commands import _sketch_audit
from tulle._commands import sketch as sketch_command
from tulle.cli import tulle
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.sketch._records import SparseRecords


def run(*arguments: object) -> Result:
    return CliRunner().invoke(tulle, ["sketch", *map(str, arguments)])


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Writes 200 texts about two topics, and one about a third."""
    rng = np.random.default_rng(0)
    words = {topic: [f"{topic}{n}" for n in range(30)] for topic in ("sport", "money", "opera")}
    rows = []
    for at in range(201):
        topic = "opera" if at == 200 else ("sport", "money")[at % 2]
        chosen = rng.choice([*words[topic], *[f"word{n}" for n in range(60)]], 40)
        rows.append({"body": " ".join(chosen), "topic": topic})
    path = tmp_path / "news.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.slow
def test_from_texts_to_a_miner_who_learns_topics(texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "sketches.parquet"
    done = run(
        texts, "-o", out, "--text", "body", "--keep", "topic", "--target-risk", "60%",
        "--seed", 1, "--json", "--accept-risk", "the miner is bound by contract",
    )  # fmt: skip
    assert done.exit_code == 0, (done.output, done.exception)
    told = json.loads(done.stdout)
    tried = told["tried"]
    chosen = next(row for row in tried if row["delta"] == told["delta"])
    assert chosen["risk"] <= 0.6
    assert all(row["risk"] > 0.6 for row in tried if row["delta"] < told["delta"])
    # whoever keeps a label wants it learnt: that is what trials and the verdict on use look at
    assert all(row["classes_kept"] >= 0 for row in tried)
    assert "neighbours" not in told["verdict"]["use"]["reason"]
    assert any("1 value of kept columns" in note for note in told["notes"])
    table = pl.read_parquet(out)
    assert table.columns == ["length", "sketch", "topic"]
    assert "opera" not in table["topic"].to_list()  # one text alone
    sketches, topics = Sketches.load(out)[:200], table["topic"].to_numpy()[:200]
    seen = ~sketches.suppressed
    rows = np.flatnonzero(seen)
    miner = SketchKNeighborsClassifier(5).fit(sketches[rows[:100]], topics[rows[:100]])
    assert np.mean(miner.predict(sketches[rows[100:]]) == topics[rows[100:]]) > 0.6


class _Attacked:
    """Attacks whose risk follows a list: in trials first, then in finished releases."""

    def __init__(self, risks: dict[float, float], finished: dict[float, float]) -> None:
        self.risks, self.finished, self.tried = risks, finished, []

    def on_sample(self, records, beside, name, delta, rng, parameters):  # type: ignore[no-untyped-def]
        row = {name: delta, "suppressed": 0.0, "neighbour_recall": 1 / (1 + delta)}
        return row | {"median_components": 8.0, "risk": self.risks.get(delta, 0.0)}

    def on_release(self, made, target):  # type: ignore[no-untyped-def]
        delta = self.tried.pop(0)
        risk = self.finished[delta]
        return [{"name": "target_risk", "limit": 0.1, "value": risk, "holds": risk <= 0.1}]


RISKS = {0.25: 0.6, 0.5: 0.5, 1.0: 0.08, 2.0: 0.14, 3.0: 0.09, 4.0: 0.05, 6.0: 0.07}  # up and down


def test_a_delta_counts_if_the_next_one_passes_too_and_the_finished_sketches_decide(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "s.parquet"
    asked = (texts, "-o", out, "--text", "body", "--target-risk", "10%", "--no-audit", "--json")
    attacked = _Attacked(RISKS, {3.0: 0.16, 4.0: 0.02, 6.0: 0.3})
    monkeypatch.setattr(_sketch_audit, "_try", attacked.on_sample)
    monkeypatch.setattr(sketch_command, "_target_gate", attacked.on_release)
    attacked.tried = [3.0, 4.0]
    told = json.loads(run(*asked).stdout)
    assert told["delta"] == 4.0  # 1 passed alone, and 3 failed when it was finished
    assert [row["delta"] for row in told["tried"]] == [0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0]

    attacked.finished, attacked.tried = dict.fromkeys((3.0, 4.0, 6.0), 0.2), [3.0, 4.0, 6.0]
    refused = run(*asked, "--force")
    assert isinstance(refused.exception, PrivacyError)
    assert "delta 2: risk 14.0%" in str(refused.exception)
    assert "The least risk has delta 4." in str(refused.exception)


def test_where_no_delta_passes_both_verdicts_one_sentence_says_so(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sketch_audit, "_try", _Attacked(RISKS, {}).on_sample)
    asked = ("--text", "body", "--target-risk", "10%", "--json", "--accept-risk", "a trial")
    told = json.loads(run(texts, "-o", tmp_path / "s.parquet", *asked).stdout)
    assert told["delta"] == 3.0
    step = told["verdict"]["use"]["next"]
    assert step.startswith(
        "No delta that was tried passes both verdicts: of those within the risk, delta 3 is the "
        "best (25.0% of the nearest neighbours kept, risk 9.0%); 50.0% are kept with delta 1, at "
    )
    assert "tulle learn --classes" in step
    assert "look for a delta" not in told["verdict"]["privacy"]["next"].lower()


def test_a_delta_that_passes_both_verdicts_needs_no_trade() -> None:
    rows = [{"delta": d, "neighbour_recall": 0.9, "risk": 0.01} for d in (1.0, 2.0)]
    assert _sketch_audit.trade("delta", rows, [1.0]) == ""
    assert _sketch_audit.trade("delta", [], []) == ""


def test_labels_and_risks_that_cannot_be(texts: Path, tmp_path: Path) -> None:
    asked = (texts, "--text", "body", "-o", tmp_path / "s.parquet")
    for more, error in (
        (("--keep", "body"), ParameterError),
        (("--keep", "nothing"), DataError),
        (("--target-risk", "5%", "--delta", 1), ParameterError),
    ):
        assert isinstance(run(*asked, *more).exception, error), more
    other = run(texts, "--text", "body", "-o", tmp_path / "s.npz")
    assert isinstance(other.exception, ParameterError)
    lines = tmp_path / "lines.txt"
    lines.write_text("one text\n" * 20)
    assert isinstance(
        run(lines, "-o", tmp_path / "t.parquet", "--keep", "topic").exception, DataError
    )
    assert not list(tmp_path.glob("*.parquet"))


def test_no_delta_is_found_where_every_one_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def leaking(
        _: object, __: object, name: str, delta: float, *others: object
    ) -> dict[str, float]:
        tried.append(
            {"delta": delta, "suppressed": delta / 4, "neighbour_recall": None, "risk": 0.5}
        )
        return tried[-1]

    monkeypatch.setattr(_sketch_audit, "_try", leaking)
    records = SparseRecords(csr_array(np.ones((5, 3))), None)
    with pytest.raises(PrivacyError, match="delta 3: risk 50.0%"):
        _sketch_audit.find_settings("delta", records, 0.1, np.random.default_rng(0))
    assert [row["delta"] for row in tried] == [0.25, 0.5, 1.0, 2.0, 3.0]


@pytest.mark.slow
def test_k_is_looked_for_where_the_model_is_k_variance(texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "sketches.parquet"
    asked = (texts, "-o", out, "--text", "body", "--model", "k-variance", "--json", "--seed", 1)
    risky = ("--target-risk", "95%", "--accept-risk", "bound by contract")
    told = json.loads(run(*asked, *risky).stdout)
    tried = told["tried"]
    assert [row["k"] for row in tried] == sorted(row["k"] for row in tried)
    assert next(row["risk"] for row in tried if row["k"] == told["k"]) <= 0.95
    assert "delta" not in tried[0]
    refused = run(*asked, "--target-risk", "5%", "-k", 20, "--force")
    assert isinstance(refused.exception, ParameterError)
    assert "looks for k" in str(refused.exception)
