"""The decorators of the numba kernels.

Kernel files import this module; they are themselves imported only when the input is large
enough to pay for numba's start (some tenths of a second), so small inputs never wait for a
compiler. A compilation that takes more than a second says so once on standard error.
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
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.extending import is_jitted

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
int64: Any = np.int64  # in kernels: an index of this type, and not a part compiled for a literal


class _PartLibrary(JITCodeLibrary):
    """What a part compiles to: it is optimised and turned into machine code with its kernels.

    Numba would do both for each part alone, and again for each kernel that the part goes into,
    which took more than half of the time of a cold start.
    """

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0  # nobody calls it from Python

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, name: str, env: Any) -> None:
        """Do nothing: parts do not look anything up."""


class _PartCompiler(Compiler):
    """Numba's compiler, with a library of our own for its result."""

    def define_pipelines(self) -> Any:
        codegen = self.state.targetctx.codegen()
        self.state.library = _PartLibrary(codegen, self.state.func_id.func_qualname)
        return super().define_pipelines()


_PART: dict[str, Any] = {
    "_nrt": False,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": _PartCompiler,
    "cache": False,
}
_INLINED: dict[str, Any] = _PART | {"forceinline": True}


def kernel(function: Kernel) -> Kernel:
    """Compile on first use, cache on disk, release the interpreter lock while running.

    What was compiled before a file in the same folder changed is compiled again.
    """
    return _watched(function)


def part(function: Kernel) -> Kernel:
    """Compile a function that only kernels call: without a wrapper for Python, in less time.

    Call it with ``int64(0)`` rather than ``0``: numba compiles it again for a literal.
    """
    return _compiled(function, **_PART)


def borrowing(function: Kernel) -> Kernel:
    """Compile a kernel that makes no arrays, so that it need not count who holds those it is given.

    Numba counts for every call that takes an array, in a way that is safe among threads and
    therefore slow: with tuples of many arrays it took half of a stream's time.
    """
    return _watched(function, _nrt=False)


def inlined(function: Kernel) -> Kernel:
    """Compile a short part that makes no arrays into each kernel that calls it.

    A call copies address, shape and strides of every array, which for a tuple of many arrays
    takes longer than a short loop over them.
    """
    return _compiled(function, **_INLINED)


def _watched(function: Kernel, **options: Any) -> Kernel:
    compiled: Any = _compiled(function, **options)
    if is_jitted(compiled) and compiled.stats.cache_path:
        sources = Path(function.__code__.co_filename).parent
        forget_outdated(sources, Path(compiled.stats.cache_path))
    return cast(Kernel, compiled)


def _compiled(function: Kernel, **options: Any) -> Kernel:
    usual = {"cache": True, "error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}
    options = usual | options
    try:
        return numba.njit(**options)(function)
    except (RuntimeError, OSError):  # neither the folder of the file nor home is writable
        return numba.njit(**options | {"cache": False})(function)


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


class _Notice(event.Listener):
    """Announce once that the compiler is running."""

    said = False

    def __init__(self) -> None:
        self.timers: list[threading.Timer] = []

    def on_start(self, event: Any) -> None:
        timer = threading.Timer(1.0, self.say)
        timer.daemon = True
        timer.start()
        self.timers.append(timer)

    def on_end(self, event: Any) -> None:
        if self.timers:
            self.timers.pop().cancel()

    def say(self) -> None:
        if not _Notice.said and sys.stderr.isatty():
            _Notice.said = True
            print("tulle: compiling kernels, once for this machine ...", file=sys.stderr)


class _NoCollection(event.Listener):
    """Keep Python from looking for garbage while the compiler runs.

    It makes many objects and throws few away: looking took a sixth of the time.
    """

    def __init__(self) -> None:
        self.running = 0
        self.was_on = False

    def on_start(self, event: Any) -> None:
        if not self.running:
            self.was_on = gc.isenabled()
            gc.disable()
        self.running += 1

    def on_end(self, event: Any) -> None:
        self.running -= 1
        if not self.running and self.was_on:
            gc.enable()


event.register("numba:compile", _Notice())
event.register("numba:compile", _NoCollection())  # the compiler's lock is held: one thread
