from __future__ import annotations

import numpy as np
import pytest

from tulle._checks import check_choice, check_flag, check_int, check_real, check_share
from tulle.errors import ParameterError


def test_right_values_pass_through_as_plain_types() -> None:
    assert check_int("A", "k", np.int64(3), 2) == 3
    assert check_real("A", "w", 1, 0, 1) == 1.0
    assert check_choice("A", "m", "fast", ["fast", "best"]) == "fast"
    assert check_flag("A", "f", True) is True
    assert check_flag("A", "f", np.False_) is False


@pytest.mark.parametrize("wrong", [1, 2.0, True, "3", None, np.nan])
def test_wrong_integers_are_named(wrong: object) -> None:
    with pytest.raises(ParameterError, match="'k'.*2.*9"):
        check_int("A", "k", wrong, 2, 9)


@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan"), float("inf"), 10**400, "x", True])
def test_wrong_numbers_are_named(wrong: object) -> None:
    with pytest.raises(ParameterError, match="0.*1"):
        check_real("A", "psi", wrong, 0, 1)


@pytest.mark.parametrize("wrong", ["1e999%", "1e9999", "9" * 400 + "%", "1/0%", "%", "\x1e"])
def test_texts_that_are_no_share_are_named(wrong: str) -> None:
    with pytest.raises(ParameterError, match="'share'"):
        check_share("A", "share", wrong)


def test_open_ends_exclude_their_limit() -> None:
    with pytest.raises(ParameterError, match="0"):
        check_real("A", "w", 0.0, 0, closed="neither")


def test_near_words_are_suggested_and_data_is_not_shown() -> None:
    with pytest.raises(ParameterError, match="'fast'"):
        check_choice("A", "grouping", "fsat", ["fast", "best"])
    with pytest.raises(ParameterError) as caught:
        check_int("A", "k", np.array([123456]), 2)
    assert "123456" not in str(caught.value)
