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
from tulle._commands import _sketch_search
from tulle.cli import tulle
from tulle.errors import DataError, ParameterError, PrivacyError
from tulle.sketch._records import Records


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
    assert any("1 value of kept columns" in note for note in told["notes"])
    table = pl.read_parquet(out)
    assert table.columns == ["length", "sketch", "topic"]
    assert "opera" not in table["topic"].to_list()  # one text alone
    sketches, topics = Sketches.load(out)[:200], table["topic"].to_numpy()[:200]
    seen = ~sketches.suppressed
    rows = np.flatnonzero(seen)
    miner = SketchKNeighborsClassifier(5).fit(sketches[rows[:100]], topics[rows[:100]])
    assert np.mean(miner.predict(sketches[rows[100:]]) == topics[rows[100:]]) > 0.6


def test_labels_and_risks_that_cannot_be(texts: Path, tmp_path: Path) -> None:
    asked = (texts, "--text", "body", "-o", tmp_path / "s.parquet")
    for more, error in (
        (("--keep", "body"), ParameterError),
        (("--keep", "nothing"), DataError),
        (("--target-risk", "5%", "--delta", 1), ParameterError),
    ):
        assert isinstance(run(*asked, *more).exception, error), more
    npz = run(texts, "--text", "body", "-o", tmp_path / "s.npz", "--keep", "topic")
    assert isinstance(npz.exception, ParameterError)
    lines = tmp_path / "lines.txt"
    lines.write_text("one text\n" * 20)
    assert isinstance(
        run(lines, "-o", tmp_path / "t.parquet", "--keep", "topic").exception, DataError
    )
    assert not list(tmp_path.glob("*.parquet"))


def test_no_delta_is_found_where_every_one_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def leaking(_: object, delta: float, *others: object) -> dict[str, float]:
        row = {"delta": delta, "suppressed": delta / 4, "risk": 0.5}
        tried.append(row)
        others[1].append(row)  # type: ignore[attr-defined]
        return row

    monkeypatch.setattr(_sketch_search, "_try", leaking)
    records = Records(csr_array(np.ones((5, 3))), None)
    with pytest.raises(PrivacyError, match="5"):
        _sketch_search.find_delta(records, 0.1, np.random.default_rng(0))
    assert [row["delta"] for row in tried] == [0.25, 0.5, 1.0, 2.0, 4.0]
