from __future__ import annotations

import gc
import io
import tracemalloc
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

from tests.rules.test_best import shop
from tulle.errors import DataError, PrivacyError
from tulle.rules import RuleHider
from tulle.rules import _stream as stream
from tulle.rules._sensitive import Thresholds
from tulle.rules._stream import HidingStream
from tulle.rules.rule import Rule
from tulle.transactions import fimi, fimi_blocks, read_fimi, write_fimi

LIMITS = Thresholds("test", 12, 0.5)
RULES = [Rule("0, 1 -> 2"), Rule("3 -> 4")]


def hide_stream(
    source: Path, file: BinaryIO, rules: list[Rule], thresholds: Thresholds, **options: Any
) -> tuple[Any, dict[str, Any], float | None]:
    options = {"window": 400, "victim": "transaction", "random_state": None} | options
    hiding = HidingStream(lambda size: fimi_blocks(source, size), rules, thresholds, **options)
    for released in hiding.released():
        write_fimi(released, file)
    return hiding.result()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "baskets.dat"
    path.write_text("".join(" ".join(map(str, basket)) + "\n" for basket in shop(0)))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("window", [37, 400, 1000])
@pytest.mark.parametrize("victim", ["transaction", "window"])
def test_the_stream_writes_what_the_hider_gives(source: Path, window: int, victim: str) -> None:
    out = io.BytesIO()
    found = hide_stream(source, out, RULES, LIMITS, window=window, victim=victim, random_state=5)
    one = RuleHider(
        RULES, method="swa", min_support=12, min_confidence=0.5, window=window, victim=victim,
        margin=0, random_state=5,
    )  # fmt: skip
    whole = io.BytesIO()
    write_fimi(one.fit_transform(source), whole)
    assert out.getvalue() == whole.getvalue()
    report, counts, failed = found
    assert report == one.report_
    assert counts["baskets"] == one.n_transactions_
    assert counts["baskets_touched"] == one.n_transactions_touched_
    assert counts["dif"] == pytest.approx(one.dif_)
    assert failed == one.hiding_failure_ == 0


@pytest.mark.parametrize(("rules", "message"), [(["77 -> 1"], "'77'"), (["bread -> 1"], "items")])
def test_unknown_items_are_named(source: Path, rules: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        hide_stream(source, io.BytesIO(), [Rule(rule) for rule in rules], LIMITS)


def test_fails_closed(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lazy(block: Any, *rest: Any, **options: Any) -> Any:
        return np.ones(len(block.items), dtype=bool)

    monkeypatch.setattr(stream, "slide", lazy)
    with pytest.raises(PrivacyError, match="2 of 2"):
        hide_stream(source, io.BytesIO(), RULES, LIMITS)


@pytest.mark.parametrize("more", ["7 8\n", "\n"])
def test_a_file_that_changes_while_it_is_read_is_refused(
    source: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    passes = iter([source.read_text(), source.read_text().rstrip("\n") + " 999" + more])

    def blocks(path: Path, size: int) -> Any:
        path.write_text(next(passes).replace("\n\n", "\n"))
        return fimi.fimi_blocks(path, size)

    monkeypatch.setitem(globals(), "fimi_blocks", blocks)
    with pytest.raises(DataError):
        hide_stream(source, io.BytesIO(), RULES, LIMITS)


@pytest.mark.slow
def test_memory_is_bounded_by_the_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fimi, "_CHUNK", 1 << 14)
    path = tmp_path / "many.dat"
    lines = "".join(" ".join(map(str, basket)) + "\n" for basket in shop(0, 2000))
    path.write_text(lines * 10)

    class Sink(io.RawIOBase):
        def write(self, data: Any) -> int:
            return len(data)

    def peak(times: int) -> int:
        path.write_text(lines * times)
        gc.collect()  # what earlier tests left behind is freed at any moment
        tracemalloc.start()
        hide_stream(path, Sink(), RULES, LIMITS, window=500)  # type: ignore[arg-type]
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(2)  # loads what is loaded once
    assert peak(24) < 1.2 * peak(6)  # several blocks each
    path.write_text(lines * 2)
    assert len(read_fimi(path)) == 4000
