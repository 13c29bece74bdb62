"""How functions are compiled: without Python, so that other threads go on, and kept on disk for the next start."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from millstream.errors import ConfigError

__all__ = ["compiled", "eight_bytes", "trailing_zeros"]

_LOGGER = logging.getLogger(__name__)
_Function = TypeVar("_Function", bound=Callable[..., Any])

try:
    from llvmlite import ir
    from numba import njit, types
    from numba.core.event import Event, Listener, register
    from numba.core.registry import cpu_target
    from numba.extending import intrinsic

    from millstream_models.compiled.code_cache import Kept

    # As at the first call, but now: processes that are forked from one that has imported this have no need of it.
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
except Exception as error:  # an ImportError, or whatever numba raises over a library that does not fit it
    message = (
        f"numba cannot be used here ({type(error).__name__}: {error}), and hashed_text, naive_bayes, softmax and ftrl "
        "are compiled with it; install it again with `pip install --force-reinstall numba`, or choose the model "
        "river_nb, which needs none"
    )
    raise ConfigError(message) from error


class _Teller(Listener):
    """Tells why nothing happens for a while: a function of ours is compiled, which is not on disk yet."""

    def __init__(self) -> None:
        self._told = False

    def on_start(self, event: Event) -> None:
        dispatcher = event.data["dispatcher"]
        if self._told or not str(dispatcher.py_func.__module__).startswith(f"{__package__}."):
            return
        self._told = True
        kept = (
            "once"
            if dispatcher.stats.cache_path
            else "at every start, until NUMBA_CACHE_DIR names a folder to keep it in"
        )
        _LOGGER.warning("compiling the model and what counts words, %s; it takes some seconds", kept)

    def on_end(self, event: Event) -> None:
        pass


register("numba:compile", _Teller())  # type: ignore[no-untyped-call]


def compiled(function: _Function) -> _Function:
    """Compile a function when it is first called.

    Numbers follow numpy's rules (nothing raises), and no sum is put in another order, so results are the same to the
    bit wherever a loop is cut.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    made: Any = njit(function, **options)
    with suppress(RuntimeError):  # neither the package's folder nor one of the user's can be written to
        made._cache = Kept(function)
    compiles: _Function = made
    return compiles


def _load_eight(typing: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bytes_ = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = builder.bitcast(builder.gep(bytes_.data, [arguments[1]]), ir.IntType(64).as_pointer())
        loaded = builder.load(pointer)
        loaded.align = 1
        return loaded

    return types.uint64(array, types.intp), generate


eight_bytes: Any = intrinsic(_load_eight)
"""The eight bytes of an array from a place on, as one number."""


def _count_trailing_zeros(typing: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


trailing_zeros: Any = intrinsic(_count_trailing_zeros)
"""How many of a number's lowest bits are 0."""
