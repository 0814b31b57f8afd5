"""What can go wrong, and with which exit code of the command line.

::

    TulleError(ValueError)      a user's mistake or unusable data      exit 2
      ParameterError            an option has a value it cannot have
      DataError                 the data do not fit the request
      OutputExists              a file, folder or table would be replaced without force
      PolicyError               a policy file is wrong
      KeyMaterialError          a key, passphrase or sealed file is wrong
      PrivacyError              the guarantee cannot be met            exit 1
      GateError                 a gate failed: a limit was exceeded    exit 1
    PrivacyWarning              protection is weaker than it looks

Messages name the option or column, the count and the remedy, never a cell of the data.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self


class TulleError(ValueError):
    """Base class of every error that Tulle raises on purpose.

    Parameters
    ----------
    message : str
        What is wrong, where, and the remedy.
    parameter : str, optional
        The parameter that is wrong.
    subject : str, optional
        The words for that parameter, if the message is a sentence that they begin.

    Examples
    --------
    >>> error = ParameterError("must be at least 2.", parameter="k", subject="The parameter 'k'")
    >>> str(error), str(error.named("--k"))
    ("The parameter 'k' must be at least 2.", '--k must be at least 2.')
    """

    exit_code = 2

    def __init__(
        self, message: str = "", *, parameter: str | None = None, subject: str | None = None
    ) -> None:
        super().__init__(message if subject is None else f"{subject} {message}")
        self.parameter = parameter
        self.option: str | None = None  # the parameter in the user's words
        self._predicate = None if subject is None else message

    def named(self, option: str) -> Self:
        """Call the parameter by another name, such as ``--k``, in the message.

        Parameters
        ----------
        option : str
            The new name.

        Returns
        -------
        TulleError
            The same error.
        """
        text = f"{option}: {self}" if self._predicate is None else f"{option} {self._predicate}"
        self.args, self.option = (text,), option
        return self


class ParameterError(TulleError):
    """Raised when an option or constructor parameter has a value it cannot have."""


class DataError(TulleError):
    """Raised when the data do not fit the request."""


class OutputExists(TulleError):
    """Raised when the output is there already and ``force`` was not given."""


class PolicyError(TulleError):
    """Raised when a policy names a column, role or option that does not exist."""


class KeyMaterialError(TulleError):
    """Raised when a key, a passphrase or a sealed file is wrong."""


class PrivacyError(TulleError):
    """Raised when the requested guarantee cannot be met; nothing was written."""

    exit_code = 1


class GateError(TulleError):
    """Raised when a gate fails: a limit that the user set was exceeded."""

    exit_code = 1


class PrivacyWarning(UserWarning):
    """Warn that protection is weaker than it looks."""


def nearest_name(wrong: str, known: Iterable[str]) -> str:
    """Return a hint to append to a message: the closest valid name, or the names there are.

    >>> nearest_name("agee", ["age", "sex"])
    "did you mean 'age'?"
    >>> nearest_name("quasi", ["target", "quasi-identifier"])
    "did you mean 'quasi-identifier'?"
    >>> nearest_name("weight", ["age", "sex"])
    "choose from 'age', 'sex'"
    """
    from difflib import get_close_matches  # slow to load, and rarely needed

    names = [str(name) for name in known]
    plain = {name.casefold(): name for name in reversed(names)}
    meant = str(wrong).casefold()
    close = get_close_matches(meant, plain, n=1)
    close = close or [name for name in plain if len(meant) > 3 and name[:4] == meant[:4]]
    if close:
        return f"did you mean '{plain[close[0]]}'?"
    shown = ", ".join(f"'{name}'" for name in names[:12])
    return f"choose from {shown}{', ...' if len(names) > 12 else ''}"


def missing_extra(package: str, extra: str, purpose: str) -> TulleError:
    """Return the error for an optional dependency that is not installed."""
    return TulleError(f"{purpose} needs '{package}': pip install 'tulle[{extra}]'")
