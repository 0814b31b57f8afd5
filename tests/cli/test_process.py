"""Interrupts that libraries swallow, and what they print by themselves."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import polars as pl
import pytest

from tulle.cli import main
from tulle.cli._process import Interrupts


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["tulle", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert isinstance(stop.value.code, int)
    return stop.value.code


@pytest.mark.parametrize("debug", [[], ["--debug"]])
@pytest.mark.parametrize(
    "error", [ValueError("Smith"), pl.exceptions.PanicException("Smith"), OSError(5, "Smith")]
)
def test_an_interrupt_that_a_library_turns_into_an_error_is_still_an_interrupt(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    debug: list[str],
) -> None:
    def work(*_: object, **__: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise error from None

    monkeypatch.setattr("tulle._commands.verify.verify_release", work)
    assert run(monkeypatch, *debug, "verify", "r") == 130
    told = capsys.readouterr().err
    assert told.startswith("tulle: interrupted")
    assert told.count("\n") == 1


def test_the_handler_of_before_is_back_after_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT)
    run(monkeypatch, "--version")
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt), Interrupts() as interrupts:
        assert not interrupts.seen
        signal.raise_signal(signal.SIGINT)
    assert interrupts.seen


def test_panics_print_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def panic(*_: object, **__: object) -> None:
        os.write(2, b"thread panicked at 'Smith'")
        pl.DataFrame({"a": ["Smith"]}).select(pl.col("a").map_batches(_interrupted))

    monkeypatch.setenv("RUST_BACKTRACE", "1")
    monkeypatch.setattr("tulle._commands.verify.verify_release", panic)
    assert run(monkeypatch, "verify", "r") == 130
    assert capfd.readouterr().err == "tulle: interrupted: no partial file was left\n"
    os.write(2, b"back")
    assert capfd.readouterr().err == "back"


def _interrupted(series: pl.Series) -> pl.Series:
    signal.raise_signal(signal.SIGINT)
    return series


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_damaged_files_end_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path, suffix: str
) -> None:
    """Flip bits all over a file: some make the reader panic."""
    path = tmp_path / f"t.{suffix}"
    frame = pl.DataFrame({"a": [1, 2, 3], "b": ["Smith", "x", None]})
    (frame.write_parquet if suffix == "parquet" else frame.write_ipc)(path)
    whole = path.read_bytes()
    for place in range(0, len(whole), 37):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        code = run(monkeypatch, "inspect", str(path), "-o", str(tmp_path / "p.toml"), "--force")
        told = capfd.readouterr().err
        assert code in (0, 2)
        assert "panicked" not in told
        assert "Smith" not in told
        assert told.count("\n") == (code == 2)
