"""How functions are compiled: without Python, so that other threads go on, and kept on disk for the next start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from millstream.errors import ConfigError

__all__ = ["compiled", "eight_bytes"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

try:
    from llvmlite import ir
    from numba import njit, types
    from numba.extending import intrinsic
except Exception as error:  # an ImportError, or whatever numba raises over a library that does not fit it
    message = (
        f"numba cannot be used here ({type(error).__name__}: {error}), and hashed_text, naive_bayes, softmax and ftrl "
        "are compiled with it; install it again with `pip install --force-reinstall numba`, or choose the model "
        "river_nb, which needs none"
    )
    raise ConfigError(message) from error


def compiled(function: _Function) -> _Function:
    """Compile a function when it is first called.

    Numbers follow numpy's rules (nothing raises), and no sum is put in another order, so results are the same to the
    bit wherever a loop is cut.
    """
    made: _Function = njit(function, nogil=True, cache=True, error_model="numpy")
    return made


def _load_eight(typing: Any, array: Any, place: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bytes_ = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = builder.bitcast(builder.gep(bytes_.data, [arguments[1]]), ir.IntType(64).as_pointer())
        loaded = builder.load(pointer)
        loaded.align = 1
        return loaded

    return types.uint64(array, types.intp), generate


eight_bytes: Any = intrinsic(_load_eight)
"""The eight bytes of an array from a place on, as one number."""
