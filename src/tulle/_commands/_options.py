"""One way from what the user wrote to the options of a command, and back in messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from tulle._types import FilePath
from tulle.errors import ParameterError, PolicyError, TulleError, nearest_name
from tulle.io._formats import existing_file
from tulle.table.policy import Policy, load_policy
from tulle.table.schema import Column

_SAME = {"time_budget": "time", "random_state": "seed"}  # what the library calls otherwise


@dataclass(frozen=True)
class Options:
    """The options of a command; each command adds its own with their defaults.

    ``words`` are those for the options that were given: ``--k``, ``p.toml: 'k' in [condense]``.
    The values are checked where they are used; :meth:`naming` makes errors use these words.
    ``policy`` is read once, from ``policy_file``: it may change while a command runs.
    """

    words: Mapping[str, str] = field(default_factory=dict, kw_only=True, repr=False)
    policy: Policy = field(default=Policy(), kw_only=True, repr=False)
    policy_file: FilePath | None = field(default=None, kw_only=True, repr=False)

    def values(self) -> dict[str, Any]:
        """Return all options by name."""
        own = {part.name for part in fields(Options)}
        return {
            part.name: getattr(self, part.name) for part in fields(self) if part.name not in own
        }

    @property
    def declared(self) -> bool:
        """Whether the policy describes the columns: none is guessed then."""
        return bool(self.policy.columns)

    def described(self, names: Iterable[str]) -> list[Column]:
        """Return the columns of a table as the policy describes them; none if it does not."""
        try:
            return self.policy.resolve(names)
        except PolicyError as error:
            raise PolicyError(f"{self.policy_file}: {error}") from None

    def word(self, name: str) -> str:
        """Return what the user calls an option."""
        return self.words.get(name) or "--" + name.replace("_", "-")

    def on_command_line(self, name: str) -> bool:
        """Return whether an option was given there, rather than in the policy or not at all."""
        return self.words.get(name, "").startswith("--")

    @contextmanager
    def naming(self, **names: str) -> Iterator[None]:
        """Make errors name parameters as the user does; ``names`` maps further parameters."""
        try:
            yield
        except TulleError as error:
            name = _SAME.get(error.parameter or "", error.parameter)
            known = {*names, *self.words, *self.values()}
            if name is None or name not in known or error.option is not None:
                raise
            error.named(names.get(name) or self.word(name))
            in_policy = name in self.words and not self.on_command_line(name)
            if isinstance(error, ParameterError) and in_policy:
                raise PolicyError(str(error), parameter=name) from None
            raise


@dataclass(frozen=True)
class Gates(Options):
    """The limits that an audit of one release can exceed; None sets no limit."""

    max_linkage: float | None = field(default=None, kw_only=True)
    max_copies: float | None = field(default=None, kw_only=True)
    max_inference: float | None = field(default=None, kw_only=True)
    max_membership: float | None = field(default=None, kw_only=True)
    max_singling_out: float | None = field(default=None, kw_only=True)
    max_reconstruction: float | None = field(default=None, kw_only=True)
    max_homogeneity: float | None = field(default=None, kw_only=True)
    min_accuracy_ratio: float | None = field(default=None, kw_only=True)


Chosen = TypeVar("Chosen", bound=Options)


def resolve(
    command: str, defaults: Chosen, policy: FilePath | None, given: Mapping[str, Any]
) -> Chosen:
    """Return the options of a command: those given, else the policy's, else the defaults.

    None stands for an option that is not given.
    """
    known = defaults.values()
    for name in given:
        if name not in known:
            hint = nearest_name(name, known)
            raise ParameterError(f"tulle {command} has no option '{name}': {hint}")
    asked = {name: value for name, value in given.items() if value is not None}
    loaded = Policy() if policy is None else load_policy(existing_file(policy))
    try:
        kept = loaded.options(command, known)
    except PolicyError as error:
        raise PolicyError(f"{policy}: {error}") from None
    words = {name: f"{policy}: '{name}' in [{command}]" for name in kept}
    words |= {name: defaults.word(name) for name in asked}
    return replace(defaults, **kept | asked, words=words, policy=loaded, policy_file=policy)
