"""One user of a stream at a time, and none after one that was cut off."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tulle import StreamCondenser
from tulle.errors import DataError, PrivacyError, TulleError
from tulle.stream._state import StreamState


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["a kernel", "between two classes"])
def test_a_stream_that_was_interrupted_is_refused(
    moment: str, rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = rng.normal(size=(400, 2))
    labels = np.arange(400) % 2
    stream = StreamCondenser(k=5, classwise=True, random_state=0).partial_fit(X, labels)
    absorb = StreamState.absorb
    calls: list[int] = []

    def interrupted(state: StreamState, *given: Any) -> None:
        calls.append(1)
        if moment == "a kernel" or len(calls) == 2:
            raise KeyboardInterrupt
        absorb(state, *given)

    with monkeypatch.context() as patched:
        patched.setattr(StreamState, "absorb", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stream.partial_fit(X, labels)
    for use in (
        lambda: stream.partial_fit(X, labels),
        stream.sample,
        stream.snapshot,
        lambda: stream.save(tmp_path / "state"),
        lambda: pickle.loads(pickle.dumps(stream)).sample(),
    ):
        with pytest.raises(PrivacyError):
            use()
    assert not (tmp_path / "state").exists()
    assert stream.fit(X, labels).n_seen_ == 400
    assert len(stream.sample()[0]) == 400


def test_a_refused_batch_is_no_interruption(rng: np.random.Generator) -> None:
    X = rng.normal(size=(200, 2))
    stream = StreamCondenser(k=5, random_state=0).partial_fit(X)
    with pytest.raises(DataError):
        stream.partial_fit(X * 1e20)
    assert stream.partial_fit(X).n_seen_ == 400


def test_two_threads_in_one_stream_are_refused(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = rng.normal(size=(200, 2))
    stream = StreamCondenser(k=5, random_state=0).partial_fit(X)
    absorb = StreamState.absorb
    refused: list[str] = []

    def intrude() -> None:
        for use in (lambda: stream.partial_fit(X), stream.sample, stream.snapshot):
            try:
                use()
            except TulleError as error:
                refused.append(str(error))

    def absorb_beside(state: StreamState, *given: Any) -> None:
        other = threading.Thread(target=intrude)
        other.start()
        other.join()
        absorb(state, *given)

    monkeypatch.setattr(StreamState, "absorb", absorb_beside)
    assert stream.partial_fit(X).n_seen_ == 400
    assert len(refused) == 3
    assert "another thread is using this stream" in refused[0]
    assert len(stream.sample()) == 400
