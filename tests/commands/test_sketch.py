"""``tulle sketch`` from file to release, manifest, key and report."""

from __future__ import annotations

import json
import math
import stat
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from scipy.sparse import vstack

from tulle import SecretKey, Sketcher
from tulle._commands import sketch as workflow
from tulle._commands._decision import Refused
from tulle._commands._sketch_audit import Sample
from tulle._metrics.sketches import classes_kept, dot_errors, neighbour_recall
from tulle.cli import tulle
from tulle.datasets import quest
from tulle.errors import (
    DataError,
    OutputExists,
    ParameterError,
    PolicyError,
    PrivacyError,
    TulleError,
)
from tulle.releases import read_manifest, verify_release
from tulle.sketch import Sketches
from tulle.sketch._records import as_records, record_batches

ACCEPTED = "the people are made up"  # so few records can be found again
sketch = partial(workflow.sketch, accept_risk=ACCEPTED)
WORDS = [f"word{i}" for i in range(60)]


@pytest.fixture
def documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, 12)) for _ in range(80)] + ["lonely", ""]
    lines = [json.dumps({"id": i, "body": text, "tags": ["x"]}) for i, text in enumerate(texts)]
    Path("docs.jsonl").write_text("\n".join(lines))
    return "docs.jsonl"


@pytest.fixture
def baskets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    T = quest(T=8, I=3, D=150, L=30, N=80, random_state=0)
    rows = [T.indices[a:b] for a, b in zip(T.indptr, T.indptr[1:])]
    Path("baskets.dat").write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
    return "baskets.dat"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(tulle, ["sketch", "--accept-risk", ACCEPTED, *arguments])


@pytest.mark.slow
def test_sketches_that_lead_back_to_people_are_not_written(baskets: str) -> None:
    refused = CliRunner().invoke(
        tulle, ["sketch", baskets, "-o", "s.parquet", "--key-file", "key", "--seed", "1", "--json"]
    )
    assert refused.exit_code == 1
    assert isinstance(refused.exception, Refused)
    told = json.loads(refused.stdout)
    assert told["verdict"]["privacy"]["level"] == "bad"
    assert told["verdict"]["privacy"]["next"]
    assert [path.name for path in Path().iterdir()] == ["baskets.dat"]
    made = run(baskets, "-o", "s.parquet", "--seed", "1", "--json")
    assert json.loads(made.stdout)["verdict"]["privacy"]["level"] == "bad"
    assert read_manifest("s.parquet").accepted_risk == ACCEPTED
    assert read_manifest("s.parquet").verdict["privacy"]["level"] == "bad"
    unseen = CliRunner().invoke(
        tulle, ["sketch", baskets, "-o", "t.parquet", "--no-audit", "--json"]
    )
    assert unseen.exit_code == 0
    assert json.loads(unseen.stdout)["verdict"]["privacy"]["level"] == "undecided"


def test_documents_become_a_verified_release(documents: str) -> None:
    result = run(
        documents, "-o", "s.parquet", "--model", "delta", "--delta", "0.5", "--text", "body"
    )
    assert result.exit_code == 0, result.output
    S = Sketches.load("s.parquet")
    assert len(S) == 82
    assert S.suppressed[-2:].all()
    manifest = read_manifest("s.parquet")
    assert manifest.counts["suppressed"] == 2
    assert manifest.guarantee["delta"] == 0.5
    assert manifest.source["name"] == "docs.jsonl"
    assert all(row["holds"] for row in verify_release("s.parquet"))
    assert not any(word in Path("s.parquet.manifest.json").read_text() for word in WORDS)


@pytest.mark.slow
def test_baskets_with_json_output_and_k_variance(baskets: str) -> None:
    result = run(baskets, "-o", "s.parquet", "--model", "k-variance", "-k", "4", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.output)
    assert said["k"] == 4
    assert said["criterion"] == "definition"
    assert said["records"] == 150
    assert sum(row["records"] for row in said["components"]) == 150
    assert "pair" in said["verified"]


@pytest.mark.slow
def test_key_file_is_made_once_then_used(baskets: str) -> None:
    sketch(baskets, "one.parquet", key_file="key")
    assert stat.S_IMODE(Path("key").stat().st_mode) == 0o600
    sketch(baskets, "two.parquet", key_file="key")
    assert np.array_equal(Sketches.load("one.parquet").values, Sketches.load("two.parquet").values)
    direct = Sketcher(key=SecretKey.load("key")).fit(baskets).transform(baskets)
    assert np.array_equal(direct.values, Sketches.load("one.parquet").values)
    sketch(baskets, "three.parquet")
    assert not np.array_equal(
        Sketches.load("one.parquet").values, Sketches.load("three.parquet").values
    )


@pytest.mark.slow
def test_policy_keeps_options_and_the_command_line_wins(baskets: str) -> None:
    Path("policy.toml").write_text('[sketch]\nmodel = "delta"\ndelta = 2.0\n')
    sketch(baskets, "a.parquet", policy="policy.toml")
    assert read_manifest("a.parquet").parameters["delta"] == 2.0
    sketch(baskets, "b.parquet", policy="policy.toml", delta=1.0)
    assert read_manifest("b.parquet").parameters["delta"] == 1.0
    Path("wrong.toml").write_text("[sketch]\ndelte = 2.0\n")
    with pytest.raises(TulleError, match="'delta'"):
        sketch(baskets, "c.parquet", policy="wrong.toml")


@pytest.mark.parametrize("option", [{"k": 5}, {"criterion": "gap"}, {"graph": "partition"}])
def test_options_of_pairs_are_not_ignored_by_delta(baskets: str, option: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        sketch(baskets, "a.parquet", **option)
    (name, value), *_ = option.items()
    Path("policy.toml").write_text(f"[sketch]\n{name} = {json.dumps(value)}\n")
    with pytest.raises(ParameterError, match=f"'{name}' in .sketch."):
        sketch(baskets, "a.parquet", policy="policy.toml")
    assert not Path("a.parquet").exists()
    # a model that is given wins over the policy's, with all that belongs to it
    sketch(baskets, "a.parquet", policy="policy.toml", model="delta")


def test_wrong_parameters_are_told_before_anything_is_read(
    baskets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tulle.sketch._records.as_records", lambda *_: pytest.fail("read"))
    Path("policy.toml").write_text('[sketch]\nmodel = "k-variance"\ntext = 5\n')
    for options in ({"policy": "policy.toml"}, {"model": "k-variance", "delta": -1.0}):
        with pytest.raises((ParameterError, PolicyError), match="text|delta"):
            sketch(baskets, "a.parquet", **options)


@pytest.mark.slow
def test_k_variance_writes_part_by_part_what_it_verified_as_a_whole(
    baskets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tulle._commands.sketch._PART", 40)
    options: dict[str, Any] = {"model": "k-variance", "k": 3}
    for name in ("s.parquet",):
        sketch(baskets, name, key_file="key", report=f"{name}.json", seed=1, **options)
        owner = Sketcher(key=SecretKey.load("key"), **options)
        expected, found = owner.fit(baskets).transform(baskets), Sketches.load(name)
        assert np.array_equal(found.lengths, expected.lengths)
        assert np.array_equal(found.values, expected.values)
        assert found.provenance == expected.provenance
        rows = json.loads(Path(f"{name}.json").read_text())["guarantee"]["rows"]
        assert [row["holds"] for row in rows] == [True]


@pytest.mark.slow
def test_a_new_key_goes_away_with_a_release_that_does_not_appear(
    baskets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(parts: Any, beside: Any) -> Any:
        list(parts)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tulle.sketch.sketches._frames", full)
    SecretKey.generate().save("old")
    for key_file in ("new", "old"):
        with pytest.raises(OSError, match="No space"):
            sketch(baskets, "s.parquet", key_file=key_file)
    assert sorted(p.name for p in Path().iterdir()) == ["baskets.dat", "old"]


def test_report_of_a_single_released_record(tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_text("one record of several words\nlonely\n")
    sketch(tmp_path / "d.txt", tmp_path / "s.parquet", report=tmp_path / "r.json")
    assert "neighbour_recall" not in json.loads((tmp_path / "r.json").read_text())["metrics"]


@pytest.mark.slow
def test_report_holds_attacks_and_no_word(documents: str) -> None:
    result = run(
        documents, "-o", "s.parquet", "--text", "body", "--report", "r.html", "--seed", "1"
    )
    assert result.exit_code == 0, result.output
    page = Path("r.html").read_text()
    assert "If the key leaks" in page
    assert "linkage" in page.lower()
    assert not any(f'"{word}"' in page for word in WORDS)


@pytest.mark.slow
def test_delta_in_batches_is_delta_of_the_whole(
    documents: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sketch(documents, "whole.parquet", text="body", key_file="key", seed=1)
    small = partial(record_batches, records=7)
    monkeypatch.setattr("tulle.sketch._records.record_batches", small)
    for name in ("parts.parquet",):
        sketch(documents, name, text="body", key_file="key", report=f"{name}.html", seed=1)
        whole, parts = Sketches.load("whole.parquet"), Sketches.load(name)
        assert np.array_equal(whole.values, parts.values)
        assert np.array_equal(whole.lengths, parts.lengths)
        assert read_manifest(name).counts == read_manifest("whole.parquet").counts
        assert read_manifest(name).source["records"] == 82


def test_a_wrong_line_far_down_leaves_nothing(
    documents: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = partial(record_batches, records=7)
    monkeypatch.setattr("tulle.sketch._records.record_batches", small)
    with Path(documents).open("a") as file:
        file.write('\n{"id": 5}\n[1]\n')
    for name in ("s.parquet",):
        with pytest.raises(DataError, match="1 line"):
            sketch(documents, name, text="body", key_file="key", report="r.html")
    assert sorted(p.name for p in Path().iterdir()) == ["docs.jsonl"]


@pytest.mark.slow
def test_sample_is_drawn_evenly_and_keeps_records_with_their_sketches() -> None:
    counts = np.zeros(60, int)
    key = SecretKey(b"\x01" * 32)
    texts = [f"all word{i} {'x' * (i + 2)}" for i in range(60)]
    for seed in range(40):
        sample = Sample(np.random.default_rng(seed), most=20)
        for start in range(0, 60, 25):
            records = as_records(texts[start : start + 25])
            assert records is not None
            sample.add(records, Sketcher(key=key).fit(records).transform(records))
        places, taken, sketches = sample.taken()
        assert taken.terms is not None
        held = {int(term.removeprefix("word")) for term in taken.terms if term.startswith("word")}
        assert held == set(places.tolist())
        assert taken.matrix.shape[0] == len(sketches) == 20
        again = Sketcher(key=key).fit(taken).transform(taken)
        assert np.array_equal(again.values, sketches.values)
        counts[[int(t.removeprefix("word")) for t in taken.terms if t.startswith("word")]] += 1
    assert counts.sum() == 800
    assert counts.min() > 3  # 13 of 40 are expected


def test_sample_holds_released_records_however_few_there_are() -> None:
    sample = Sample(np.random.default_rng(0), most=3)
    for start in range(0, 400, 100):
        texts = ["lonely"] * 100
        texts[7] = f"several words number{start} here"
        records = as_records(texts)
        assert records is not None
        sample.add(records, Sketcher().fit(records).transform(records))
    _, taken, sketches = sample.taken()
    assert len(sketches) == taken.matrix.shape[0] == 3
    assert not sketches.suppressed.any()
    assert np.array_equal(np.diff(taken.matrix.indptr), [4, 4, 4])


def test_nothing_is_written_when_all_records_would_be_suppressed(baskets: str) -> None:
    result = run(baskets, "-o", "s.parquet", "--delta", "1000")
    assert isinstance(result.exception, PrivacyError)
    assert result.exception.exit_code == 1
    with pytest.raises(PrivacyError, match="150 records"):
        sketch(baskets, "s.parquet", delta=1000.0, key_file="key")
    assert sorted(p.name for p in Path().iterdir()) == ["baskets.dat"]


@pytest.mark.parametrize(
    "arguments,message",
    [
        (["-o", "s.csv"], "parquet"),
        (["-o", "s.parquet", "--delta", "-1"], "delta"),
        (["-o", "s.parquet", "--model", "k-variance", "-k", "500"], "lower k"),
        (["-o", "baskets.dat", "--force"], "source"),
        (["-o", "no/such/folder.parquet"], "does not exist"),
        (["-o", "s.parquet", "--key-file", "s.parquet"], "same file"),
        (["-o", "s.parquet", "--key-file", "s.parquet.manifest.json"], "same file"),
        (["-o", "s.parquet", "--key-file", "r.html", "--report", "r.html"], "same file"),
        (["-o", "s.parquet", "--report", "./s.parquet.manifest.json"], "same file"),
        (["-o", "s.parquet", "--report", "no/folder.html"], "does not exist"),
        (["-o", "s.parquet", "--key-file", "no/key"], "does not exist"),
        (["-o", "s.parquet", "--key-file", "baskets.dat"], "same file"),
        (["-o", "s.parquet", "--policy", "absent.toml"], "no such file"),
    ],
)
def test_mistakes_are_told_and_leave_nothing(
    baskets: str, arguments: list[str], message: str
) -> None:
    result = run(baskets, *arguments)
    assert isinstance(result.exception, TulleError)
    assert message in str(result.exception)
    assert sorted(p.name for p in Path().iterdir()) == ["baskets.dat"]


def test_report_of_another_kind_is_refused_before_any_work(baskets: str) -> None:
    with pytest.raises(TulleError, match="same file"):
        sketch(baskets, "s.parquet", report=baskets, force=True)
    assert run(baskets, "-o", "s.parquet", "--report", baskets, "--force").exit_code == 2
    assert [p.name for p in Path().iterdir()] == ["baskets.dat"]


def test_missing_and_empty_files(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        sketch(tmp_path / "absent.dat", tmp_path / "s.parquet")
    (tmp_path / "empty.txt").write_text("!\n?\n")
    with pytest.raises(DataError, match="vocabulary"):
        sketch(tmp_path / "empty.txt", tmp_path / "s.parquet")


@pytest.mark.parametrize("model", ["delta", "k-variance"])
def test_a_folder_is_called_a_folder(tmp_path: Path, model: str) -> None:
    (tmp_path / "letters").mkdir()
    with pytest.raises(DataError, match="folder"):
        sketch(tmp_path / "letters", tmp_path / "s.parquet", model=model)
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]


@pytest.mark.slow
def test_output_is_not_replaced_without_force(baskets: str) -> None:
    sketch(baskets, "s.parquet")
    with pytest.raises(OutputExists):
        sketch(baskets, "s.parquet")
    sketch(baskets, "s.parquet", force=True)


def test_measures_agree_with_theory(baskets: str) -> None:
    X = quest(T=8, I=3, D=300, L=30, N=80, random_state=1)
    rng = np.random.default_rng(0)
    loose = Sketcher(delta=0.02, key=SecretKey(b"\x01" * 32)).fit(X).transform(X)
    tight = Sketcher(delta=2.0, key=SecretKey(b"\x01" * 32)).fit(X).transform(X)
    # the pairs share the components' signs, so the ratio is not 1 to the last digit
    assert 0.7 < dot_errors(loose, X, rng).ratio < 1.4
    assert neighbour_recall(loose, X, rng) > neighbour_recall(tight, X, rng)


def test_what_labels_keep_is_measured_against_what_the_records_tell() -> None:
    parts = [quest(T=12, I=4, D=200, L=30, N=120, random_state=seed) for seed in (1, 2)]
    X, codes = vstack(parts, format="csr"), np.repeat([0, 1], 200)
    rng = np.random.default_rng(0)
    owners = [Sketcher(delta=d, key=SecretKey(b"\x01" * 32)).fit(X) for d in (0.02, 4.0)]
    loose, tight = (classes_kept(owner.transform(X), X, codes, rng) for owner in owners)
    assert loose > 0.9
    assert tight < loose - 0.2
    lots = rng.integers(0, 2, 400)  # labels that no record tells
    assert math.isnan(classes_kept(owners[0].transform(X), X, lots, rng))
    assert math.isnan(classes_kept(owners[0].transform(X), X, np.full(400, -1), rng))


@pytest.mark.slow
def test_documents_of_length_one_with_every_component_that_delta_allows(documents: str) -> None:
    made = sketch(
        documents, "s.parquet", text="body", delta=0.001, normalize=True, max_components=0, seed=0
    )
    assert made.summary["largest_components"] > 256
    assert Sketches.load("s.parquet").shape[1] == made.summary["largest_components"]
    parameters = read_manifest("s.parquet").parameters
    assert parameters["normalize"] is True
    assert parameters["max_components"] is None
    ratio = made.audit.result["metrics"]["error_of_dot_products_over_prediction"]
    assert 0.5 < ratio < 2, "measured against the records as they were sketched"
