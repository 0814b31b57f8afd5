from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tulle import Column, Kind, SecretKey, SiteAgreement, SiteCodec, SiteSummary
from tulle.errors import KeyMaterialError, ParameterError
from tulle.sites import _sealed as sealed

KEY = SecretKey(bytes(range(32)))
TABLE = pl.DataFrame({"age": [34, 51], "illness": ["Flu", "Gastritis"]})


def make(**choices: Any) -> SiteAgreement:
    return SiteAgreement.create(
        {"age": "integer", "illness": "category"}, **{"ranges": {"age": (0, 120)}, **choices}
    )


def saved(tmp_path: Path) -> tuple[SiteAgreement, Path]:
    agreement = make()
    agreement.save(tmp_path / "agreement", KEY)
    return agreement, tmp_path / "agreement"


def test_agreement_comes_back_equal_and_only_the_owner_can_read_the_file(tmp_path: Path) -> None:
    agreement, path = saved(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    loaded = SiteAgreement.load(path, KEY)
    assert loaded == agreement
    assert loaded.fingerprint == agreement.fingerprint
    assert SiteCodec(loaded).transform(TABLE).equals(SiteCodec(agreement).transform(TABLE))
    content = path.read_bytes()
    assert b"illness" not in content
    assert agreement._key._secret not in content


@pytest.mark.slow
def test_passphrase_opens_what_it_sealed_and_no_other_does(tmp_path: Path) -> None:
    agreement, path = make(), tmp_path / "agreement"
    agreement.save(path, "correct horse")
    assert SiteAgreement.load(path, "correct horse") == agreement
    with pytest.raises(KeyMaterialError) as error:
        SiteAgreement.load(path, "battery staple")
    assert "battery" not in str(error.value)
    with pytest.raises(KeyMaterialError):
        SiteAgreement.load(path, KEY)
    with pytest.raises(KeyMaterialError, match="empty"):
        agreement.save(tmp_path / "other", "")
    assert os.listdir(tmp_path) == ["agreement"]


def test_wrong_key_file(tmp_path: Path) -> None:
    _, path = saved(tmp_path)
    with pytest.raises(KeyMaterialError):
        SiteAgreement.load(path, SecretKey.generate())
    with pytest.raises(KeyMaterialError):
        SiteAgreement.load(path, "passphrase")


def test_any_changed_byte_of_the_sealed_part_is_noticed(tmp_path: Path) -> None:
    _, path = saved(tmp_path)
    content = path.read_bytes()
    start = content.index(b"\n") + 1
    for at in (start, (start + len(content)) // 2, len(content) - 1):
        changed = bytearray(content)
        changed[at] ^= 1
        path.write_bytes(changed)
        with pytest.raises(KeyMaterialError):
            SiteAgreement.load(path, KEY)


def test_any_changed_byte_of_the_first_line_is_noticed(tmp_path: Path) -> None:
    _, path = saved(tmp_path)
    content = path.read_bytes()
    for at in range(content.index(b"\n")):
        changed = bytearray(content)
        changed[at] ^= 1
        path.write_bytes(changed)
        with pytest.raises(KeyMaterialError):
            SiteAgreement.load(path, KEY)


@pytest.mark.parametrize("left", [0, 1, 50, 400, -1])
def test_truncated_file_is_said_to_be_cut(tmp_path: Path, left: int) -> None:
    _, path = saved(tmp_path)
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(KeyMaterialError, match="truncated|not a sealed file|damaged"):
        SiteAgreement.load(path, KEY)


def change_header(path: Path, **changes: Any) -> None:
    line, _, rest = path.read_bytes().partition(b"\n")
    path.write_bytes(json.dumps({**json.loads(line), **changes}).encode() + b"\n" + rest)


def test_other_versions_costs_and_contents_are_refused_before_any_work(tmp_path: Path) -> None:
    _, path = saved(tmp_path)
    original = path.read_bytes()
    for changes, words in [
        ({"version": 2}, "another version.*version 1"),
        ({"version": {"Smith": 1}}, "another version.*version 1"),
        ({"format": "zip"}, "not a sealed file"),
        ({"content": "site vocabulary"}, "not a site agreement"),
        ({"content": "Smith"}, "not a site agreement"),
        ({"kdf": {"name": "scrypt", "n": 2**30, "r": 8, "p": 1}}, "key"),
        ({"salt": "xx"}, "damaged"),
        ({"length": float("inf")}, "damaged"),
    ]:
        change_header(path, **changes)
        with pytest.raises(KeyMaterialError, match=words) as refused:
            SiteAgreement.load(path, KEY)
        assert "Smith" not in str(refused.value)  # the file is a stranger's
        path.write_bytes(original)
    with pytest.raises(KeyMaterialError):
        SiteAgreement.load(tmp_path / "absent", KEY)


def test_what_opens_nothing_is_refused(tmp_path: Path) -> None:
    for lock in (b"bytes", None, 5):
        with pytest.raises(KeyMaterialError, match="SecretKey"):
            make().save(tmp_path / "agreement", lock)  # type: ignore[arg-type]
    assert not (tmp_path / "agreement").exists()
    (tmp_path / "deep").write_bytes(b"[" * 2000 + b"\n")
    with pytest.raises(KeyMaterialError):
        SiteAgreement.load(tmp_path / "deep", KEY)
    with pytest.raises(ParameterError, match="'key'.*SecretKey"):
        make(key="a passphrase")
    with pytest.raises(ParameterError):
        SiteAgreement.create({" ": "category"})


def test_agreement_of_a_later_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "agreement"
    sealed.write_sealed(path, b'{"format": 9}', "site agreement", KEY)
    with pytest.raises(KeyMaterialError, match="format 9"):
        SiteAgreement.load(path, KEY)
    sealed.write_sealed(path, b"{}", "site agreement", KEY, force=True)
    with pytest.raises(KeyMaterialError):
        SiteAgreement.load(path, KEY)


def test_fingerprint_follows_every_secret() -> None:
    key = SecretKey.generate()
    same = [make(key=key), make(key=key)]
    assert same[0] == same[1]
    others = [
        make(),
        make(key=key, groups=6),
        make(key=key, cuts="uneven"),
        make(key=key, ranges={"age": (0, 121)}),
        make(key=key, categories={"illness": ["Flu"]}),
        make(key=key, plain=["illness"]),
    ]
    prints = {agreement.fingerprint for agreement in [same[0], *others]}
    assert len(prints) == 7
    assert all(len(p) == 39 and p.count("-") == 7 for p in prints)


def test_rotation_changes_every_code_and_leaves_the_old_readable(tmp_path: Path) -> None:
    old, path = make(cuts="uneven"), tmp_path / "agreement"
    old.save(path, KEY)
    new = old.rotate()
    assert new.generation == 2
    assert new.previous == old.fingerprint
    old_codes, new_codes = (SiteCodec(a).transform(TABLE) for a in (old, new))
    for name in TABLE.columns:
        assert not set(old_codes[name]) & set(new_codes[name])
    codec = SiteCodec(SiteAgreement.load(path, KEY)).learn(TABLE)
    assert codec.inverse_transform(old_codes).equals(TABLE)


def test_releases_of_one_agreement_have_nothing_in_common() -> None:
    agreement = make()
    spring, again = agreement.for_release("spring"), agreement.for_release("spring")
    assert spring == again
    assert agreement.for_release("autumn") != spring
    assert not set(SiteCodec(spring).transform(TABLE)["illness"]) & set(
        SiteCodec(agreement).transform(TABLE)["illness"]
    )


def test_given_cut_points_stay_when_rotated() -> None:
    agreement = make(limits={"age": [0, 60, 120]}, values={"age": [2, 5]})
    assert agreement.rotate()["age"] == agreement["age"]


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"ranges": {}}, "'age'"),
        ({"ranges": {"agee": (0, 1)}}, "'ranges'.*'agee'.*'age'"),
        ({"ranges": {"age": (5, 5)}}, "higher"),
        ({"ranges": {"age": ("a", "b")}}, "numbers"),
        ({"ranges": {"age": (0, 1e17)}}, "2"),
        ({"cuts": "even"}, "'uneven'"),
        ({"groups": 0}, "1.*256"),
        ({"values": {"age": [1, 2]}}, "'limits'"),
        ({"limits": {"age": [0, 9]}, "values": {"age": [1, 2]}}, "1 group"),
        ({"other": ["illness"]}, "'categories'"),
        ({"split": {"illness": 0}}, "split"),
        ({"split": {"age": 0.1}}, "'split'"),
        ({"categories": {"illness": []}}, "'illness'"),
    ],
)
def test_wrong_choices_are_named(choices: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        make(**choices)


def test_wrong_schemas_are_named() -> None:
    with pytest.raises(ParameterError, match="schema"):
        SiteAgreement.create([])
    with pytest.raises(ParameterError, match="'integer'"):
        SiteAgreement.create({"age": "interger"})
    with pytest.raises(ParameterError, match="dates"):
        SiteAgreement.create({"born": "date"}, ranges={"born": (0, 1)})
    with pytest.raises(ParameterError):
        SiteAgreement.create({"born": "date"}, ranges={"born": ("soon", "later")})


def test_whole_numbers_too_wide_for_exact_codes_are_refused() -> None:
    with pytest.raises(ParameterError):
        make(ranges={"age": (0, 2**53)}, groups=3)


def test_describe_tells_no_secret() -> None:
    rows = make(categories={"illness": ["Flu"]}).describe()
    assert rows[0] == {
        "column": "age", "type": "integer", "role": "quasi-identifier",
        "coded": "graded, equal groups",
    }  # fmt: skip
    assert rows[1]["coded"] == "aliases by table"


@pytest.mark.parametrize(
    "told", [{"codes": {"N": "none"}}, {"missing": (9999,)}, {"format": "1.234,5"}]
)
def test_numbers_with_codes_or_written_forms_are_refused(told: dict[str, Any]) -> None:
    column = Column("income", Kind.INTEGER, **told)
    with pytest.raises(ParameterError, match="'income'"):
        SiteAgreement.create([column], ranges={"income": (0, 10**6)})
    with pytest.raises(ParameterError, match="'income'"):
        SiteSummary.of(pl.DataFrame({"income": [100, 9999]}), [column])
    coded = SiteAgreement.create([Column("income", Kind.CATEGORY)])
    table = pl.DataFrame({"income": ["1200", "N", "7"]})
    codec = SiteCodec(coded)
    assert codec.inverse_transform(codec.transform(table))["income"].to_list() == ["1200", "N", "7"]
