"""``tulle learn``: what a miner finds in sketches and in groups, by command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from tulle._commands.learn import learn
from tulle._commands.sketch import sketch
from tulle.cli import tulle
from tulle.errors import DataError, ParameterError

pytestmark = pytest.mark.slow

TOPICS = {
    "heart": "pulse pressure chest pain oxygen rhythm valve artery",
    "bones": "knee fracture cast joint ankle splint marrow spine",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sketches of notes on two subjects, with their key, and the notes."""
    path = tmp_path_factory.mktemp("notes")
    rng = np.random.default_rng(0)
    lines = []
    for row in range(90):
        topic = list(TOPICS)[row % 2]
        words = rng.choice(TOPICS[topic].split(), 14)
        lines.append({"text": " ".join(words), "topic": topic})
    lines.append({"text": "", "topic": "heart"})
    file = path / "notes.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    sketch(
        file, path / "s.parquet", delta=0.5, keep=["topic"], key_file=path / "owner.key",
        audit=False, seed=0,
    )  # fmt: skip
    return path


def test_neighbours_with_estimates_of_each_pair(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "near.csv"
    run = CliRunner().invoke(
        tulle,
        ["learn", str(folder / "s.parquet"), "--neighbours", "3", "-o", str(output), "--json"],
    )
    assert run.exit_code == 0, (run.output, run.exception)
    near = pl.read_csv(output)
    assert near.columns == ["record", "neighbour", "cosine", "dot_product", "distance"]
    assert near.height == 3 * 90
    assert not (near["record"] == near["neighbour"]).any()
    assert (near["record"] % 2 == near["neighbour"] % 2).mean() > 0.9  # of the same subject
    assert json.loads(run.output)["suppressed"] == 1


def test_classes_are_measured_or_told(folder: Path, tmp_path: Path) -> None:
    file = folder / "s.parquet"
    found = learn(file, classes="topic", neighbours=5, seed=0)
    assert found.summary["accuracy"] > 0.9
    assert found.summary["records_learnt_from"] == 59  # the suppressed one has no label
    new, told = tmp_path / "new.parquet", tmp_path / "told.csv"
    new.write_bytes(file.read_bytes())
    learn(file, classes="topic", new=new, neighbours=5, seed=0, output=told)
    classes = pl.read_csv(told)
    assert classes.height == 91
    assert set(classes["class"]) == set(TOPICS), "the suppressed record has a class too"
    with pytest.raises(DataError, match="'subject'.*topic"):
        learn(file, classes="subject")


def test_clusters(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "clusters.csv"
    found = learn(folder / "s.parquet", clusters=2, seed=1, output=output)
    labels = pl.read_csv(output)["cluster"].to_numpy()
    assert set(labels) == {1, 2}
    assert (labels[0:90:2] == labels[0]).mean() > 0.9
    assert (labels[1:90:2] == labels[1]).mean() > 0.9
    assert found.summary["smallest_cluster"] >= 40


def test_the_holder_of_the_key_estimates_words(folder: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("pulse\nknee\n")
    output = tmp_path / "estimates.csv"
    learn(folder / "s.parquet", estimate=words, key_file=folder / "owner.key", output=output)
    found = pl.read_csv(output)
    heart = found.filter(pl.col("record") % 2 == 1)
    assert heart["pulse"].drop_nans().mean() > heart["knee"].drop_nans().mean() + 0.5
    with pytest.raises(ParameterError, match="--key-file"):
        learn(folder / "s.parquet", estimate=words)


def test_groups_of_a_table_are_mined_instead_of_records(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ill = np.repeat([0, 1], 100)
    table = pl.DataFrame(
        {
            "pulse": rng.normal(70 + 30 * ill, 5).round(1),
            "age": rng.integers(20, 80, 200),
            "ill": np.where(ill, "yes", "no"),
        }
    )
    source = tmp_path / "people.csv"
    table.write_csv(source)
    found = learn(source, classes="ill", k=10, seed=0)
    assert found.summary["accuracy"] > 0.9
    clusters = learn(source, clusters=2, k=10, seed=0)
    assert clusters.summary["records"] == 200
    new = tmp_path / "new.csv"
    table.drop("ill").head(5).write_csv(new)
    told = learn(source, classes="ill", new=new, k=10, seed=0)
    assert [row["class"] for row in told.tables["the first"]] == ["no"] * 5
    with pytest.raises(ParameterError, match="--neighbours"):
        learn(source)


def test_classes_that_are_numbers_may_be_a_little_off(tmp_path: Path) -> None:
    """Paper 000 counts an abalone's age as right within one year."""
    rng = np.random.default_rng(0)
    rings = np.concatenate([np.repeat([7, 8, 15], 60), [29]])  # one alone is not learnt from
    table = pl.DataFrame({"length": rng.normal(rings, 1).round(2), "rings": rings})
    source = tmp_path / "shells.csv"
    table.write_csv(source)
    asked = {"classes": "rings", "k": 10, "seed": 0}
    exact, near = learn(source, **asked), learn(source, within=1, **asked)
    assert near.summary["accuracy"] > 0.9 > exact.summary["accuracy"] + 0.1
    assert near.summary["records_learnt_from"] + near.summary["records_classified"] >= 180
    assert 29 not in [row["class"] for row in near.tables["the first"]]
    table.with_columns(pl.col("rings").cast(pl.String) + " rings").write_csv(source)
    with pytest.raises(ParameterError, match="--within"):
        learn(source, within=1, **asked)
    for other in ({"clusters": 2}, {"classes": "rings", "new": source}):
        with pytest.raises(ParameterError, match="--within"):
            learn(source, within=1, **other)
