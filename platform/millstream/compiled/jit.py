"""Compilation of functions with numba: compiled functions run without the GIL, and are cached for the next start."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from millstream.errors import ConfigError

__all__ = ["compiled", "eight_bytes", "folded", "loaded", "trailing_zeros"]

_LOGGER = logging.getLogger(__name__)
_Function = TypeVar("_Function", bound=Callable[..., Any])

try:
    import numba
    from llvmlite import ir
    from numba import njit, types
    from numba.extending import intrinsic
except Exception as error:  # an ImportError, or any error that numba raises for an incompatible library
    message = (
        f"numba cannot be used here ({type(error).__name__}: {error}), and digests, hashed_text and most models are "
        "compiled with numba; install numba again with `pip install --force-reinstall numba`"
    )
    raise ConfigError(message) from error


_WARNED: set[str] = set()


def _warn_of_moved_name(error: Exception, effect: str) -> None:
    """Warn once of an effect of a private name that this numba no longer has."""
    if effect not in _WARNED:
        message = "numba %s lacks a private name that Millstream uses (%s); %s"
        _LOGGER.warning(message, numba.__version__, error, effect)
    _WARNED.add(effect)


def _refresh_contexts() -> None:
    """Refresh the contexts that numba would refresh at the first call of a compiled function.

    Processes that are forked from this process do not have to refresh them.
    """
    try:
        from numba.core.registry import cpu_target

        cpu_target.typing_context.refresh()
        cpu_target.target_context.refresh()
    except (ImportError, AttributeError) as error:
        _warn_of_moved_name(error, "the first call of a compiled function in each process takes longer")


_EVERY_START = "at every start, until the environment variable NUMBA_CACHE_DIR names a folder for the compiled code"
_COMPILED: set[Callable[..., Any]] = set()


def _announce_compilation() -> None:
    """Let a warning come before the first function of Millstream is compiled: the compilation takes some seconds."""
    try:
        from numba.core.event import Listener, register
    except (ImportError, AttributeError) as error:
        _warn_of_moved_name(error, "no message announces a compilation, which takes some seconds")
        return

    class CompileWarning(Listener):
        def __init__(self) -> None:
            self._warned = False

        def on_start(self, event: Any) -> None:
            dispatcher = event.data.get("dispatcher")
            if self._warned or getattr(dispatcher, "py_func", None) not in _COMPILED:
                return
            self._warned = True
            every = (
                "at every start, until the environment variable NUMBA_CACHE_DIR names a folder for the compiled code"
            )
            frequency = "once for each function" if dispatcher.stats.cache_path else every
            _LOGGER.warning("compiling functions for this machine, %s; the compilation takes some seconds", frequency)

        def on_end(self, event: Any) -> None:
            pass

    register("numba:compile", CompileWarning())  # type: ignore[no-untyped-call]


_refresh_contexts()
_announce_compilation()


def compiled(function: _Function) -> _Function:
    """Compile a function when it is first called.

    Arithmetic follows numpy's rules (a division by zero raises no exception). The order of additions is kept, so the
    results are the same, bit for bit, for all sizes of a mini-batch.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    dispatcher: Any = njit(function, **options)
    _COMPILED.add(function)
    with suppress(RuntimeError):  # raised if neither the package's folder nor the user's cache folder is writable
        _cache_code(dispatcher, function)
    result: _Function = dispatcher
    return result


def _cache_code(dispatcher: Any, function: Callable[..., Any]) -> None:
    """Give a function our cache of compiled code, or numba's own if this numba lacks a name that our cache needs."""
    try:
        from millstream.compiled.code_cache import CodeCache

        if not hasattr(dispatcher, "_cache"):
            raise AttributeError("a dispatcher has no _cache")
        dispatcher._cache = CodeCache(function)
    except (ImportError, AttributeError, TypeError) as error:
        _warn_of_moved_name(error, "numba's own cache of compiled code is used")
        dispatcher.enable_caching()


def _load_eight(typing: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bytes_ = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = builder.bitcast(builder.gep(bytes_.data, [arguments[1]]), ir.IntType(64).as_pointer())
        loaded = builder.load(pointer)
        loaded.align = 1
        return loaded

    return types.uint64(array, types.intp), generate


eight_bytes: Any = intrinsic(_load_eight)
"""The eight bytes of an array that begin at an index, as one number."""


def _count_trailing_zeros(typing: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


trailing_zeros: Any = intrinsic(_count_trailing_zeros)
"""The number of trailing zero bits of a number; 64 for the number 0."""


def _fold(typing: Any, one: Any, other: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(argument, wide) for argument in arguments))
        upper = builder.lshr(product, ir.Constant(wide, 64))
        return builder.trunc(builder.xor(product, upper), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


folded: Any = intrinsic(_fold)
"""The upper half of the product of two numbers, 64 bits, XOR its lower half."""


def _load(typing: Any, address: Any, width: Any) -> Any:
    bits = ir.IntType(8 * width.literal_value) if isinstance(width, types.IntegerLiteral) else None
    if bits is None:
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = builder.load(builder.inttoptr(arguments[0], bits.as_pointer()))
        value.align = 1
        return builder.zext(value, ir.IntType(64)) if bits.width < 64 else value

    return types.uint64(types.int64, width), generate


loaded: Any = intrinsic(_load)
"""The number of 1, 2, 4 or 8 bytes at an address in memory; the number of bytes is a constant."""
