"""Randomness that somebody owns.

``None`` means entropy from the operating system, never NumPy's process-wide seed: a stray
``np.random.seed`` elsewhere must not make a release predictable. Work in parallel gets
generators by :func:`spawn`, one for each unit of work and not for each thread, so that a
seed gives the same release on any number of threads.
"""

from __future__ import annotations

import secrets
from numbers import Integral

import numpy as np

from tulle.errors import ParameterError

RandomState = int | np.random.Generator | np.random.RandomState | None


def as_generator(random_state: RandomState) -> np.random.Generator:
    """Return a generator from a seed, a generator, a RandomState, or the operating system.

    >>> bool(as_generator(7).integers(100) == as_generator(7).integers(100))
    True
    """
    if random_state is None:
        return np.random.default_rng(secrets.randbits(128))
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31, size=8))
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ParameterError(f"random_state must not be negative. Got {random_state}.")
        return np.random.default_rng(int(random_state))
    raise ParameterError(
        "random_state must be an int, a numpy Generator or RandomState, or None for the "
        f"operating system's entropy. Got {type(random_state).__name__} instead."
    )


def spawn(rng: np.random.Generator, count: int) -> list[np.random.Generator]:
    """Return independent generators, one for each of ``count`` units of work."""
    seeds = rng.integers(0, 2**63, size=(count, 4), dtype=np.uint64)
    return [np.random.default_rng(seed) for seed in seeds]


def coarse_count(count: int, k: int) -> str:
    """Return how many there are as anybody may know it: drawn to a multiple of ``k``.

    The draw is the operating system's, so that one person more or less changes what is said once
    in ``k`` times, wherever the count lies.

    >>> coarse_count(0, 10), coarse_count(20, 10)
    ('fewer than 10', 'about 20')
    """
    near = (count + secrets.randbelow(k)) // k * k
    return f"about {near:,}" if near else f"fewer than {k:,}"


def seed_policy(random_state: RandomState) -> str:
    """Return what a manifest says about the seed: where it came from, never the seed itself."""
    return "operating system" if random_state is None else "given"
