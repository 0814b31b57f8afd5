"""The decorators of the numba kernels, on what numba documents.

Kernel files import this module; they are themselves imported only where they are called, so that
nothing else waits for numba's start (some tenths of a second). A compilation that takes more than
a second says so once on standard error.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import cgutils, event
from numba.extending import intrinsic, register_jitable

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
int64: Any = np.int64  # in kernels: an index of this type, and not a part compiled for a literal
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True}


def kernel(function: Kernel) -> Kernel:
    """Compile on first use, cache on disk, release the interpreter lock while running.

    What was compiled before a file in the same folder changed is compiled again.
    """
    try:
        compiled: Any = numba.njit(cache=True, **_OPTIONS)(function)
    except (RuntimeError, OSError):  # neither the folder of the file nor home is writable
        return cast(Kernel, numba.njit(**_OPTIONS)(function))
    kept = getattr(compiled, "stats", None)  # not where NUMBA_DISABLE_JIT=1: a plain function
    if kept is not None:
        forget_outdated(Path(function.__code__.co_filename).parent, Path(kept.cache_path))
    return cast(Kernel, compiled)


def part(function: Kernel) -> Kernel:
    """Compile a function that only kernels call: inside of them, and without one for Python.

    Call it with ``int64(0)`` rather than ``0``: numba compiles it again for a literal.
    """
    return cast(Kernel, register_jitable(**_OPTIONS)(function))


def inlined(function: Kernel) -> Kernel:
    """Compile a short part into each kernel that calls it.

    A call copies address, shape and strides of every array, which for a tuple of many arrays
    takes longer than a short loop over them.
    """
    return cast(Kernel, register_jitable(forceinline=True, **_OPTIONS)(function))


@intrinsic
def borrowed(typing: Any, value: Any) -> Any:
    """Take arrays, or tuples of them, without counting who holds them: the caller does.

    Numba counts for every part that is given an array, in a way that is safe among threads and
    therefore slow: with tuples of many arrays it took a quarter of a stream's time. Only for
    arguments of a kernel that are neither returned nor kept.
    """

    def uncounted(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return _uncounted(context, builder, signature.args[0], given[0])

    return value(value), uncounted


def _uncounted(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, numba.types.Array):
        array = cgutils.create_struct_proxy(kind)(context, builder, value=value)
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        return array._getvalue()
    for place, inner in enumerate(kind.types):
        bare = _uncounted(context, builder, inner, builder.extract_value(value, place))
        value = builder.insert_value(value, bare, place)
    return value


@cache
def forget_outdated(sources: Path, kept: Path) -> None:
    """Delete what was compiled (``kept``) before a file of ``sources`` last changed.

    Numba looks at the age of a kernel's own file only. But a kernel holds parts and constants of
    the files next to it, and would continue with old ones.
    """
    now = time.time()
    with suppress(OSError):  # not ours to delete: nothing was compiled here either
        changes = [path.stat().st_mtime for path in sources.glob("*.py")]
        changed = max((when for when in changes if when <= now), default=0.0)
        for compiled in kept.glob("*.nb[ic]"):
            if compiled.stat().st_mtime < changed:
                compiled.unlink(missing_ok=True)


class _Compiling(event.Listener):
    """Announce once that the compiler runs, and keep Python from looking for garbage meanwhile.

    It makes many objects and throws few away: looking took a sixth of the time. The compiler's
    lock is held: one thread at a time comes here.
    """

    said = False

    def __init__(self) -> None:
        self.timers: list[threading.Timer] = []
        self.was_on = False

    def on_start(self, event: Any) -> None:
        if not self.timers:
            self.was_on = gc.isenabled()
            gc.disable()
        timer = threading.Timer(1.0, self.say)
        timer.daemon = True
        timer.start()
        self.timers.append(timer)

    def on_end(self, event: Any) -> None:
        if self.timers:
            self.timers.pop().cancel()
        if not self.timers and self.was_on:
            gc.enable()

    def say(self) -> None:
        if not self.said and sys.stderr.isatty():
            self.said = True
            print("tulle: compiling kernels, once for this machine ...", file=sys.stderr)


event.register("numba:compile", _Compiling())
