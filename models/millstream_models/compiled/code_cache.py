"""What was compiled, kept on disk for the next start.

numba's own files name machine code by a number that an index gives out: a process that dies between the two, or two
that compile at a time, leave an index that names the wrong one. Here a file's name says all that its content depends
on, and the content has a checksum: it is the right one, or none.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import sys
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache
from numba.core.serialize import dumps

__all__ = ["Kept"]

_LOGGER = logging.getLogger(__name__)
_SUM = hashlib.sha256().digest_size


class Kept(FunctionCache):
    """The kept code of one function, in the folder that numba would keep it in; a RuntimeError if there is none."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        module = function.__module__.rpartition(".")[2]
        self._name = f"{module}.{function.__qualname__}.{sys.implementation.cache_tag}"

    def load_overload(self, signature: Any, target: Any) -> Any:
        """What was compiled for these types, or None."""
        target.refresh()
        try:
            content = self._path(signature, target.codegen()).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(content[_SUM:]).digest() != content[:_SUM]:
            return None  # torn by a loss of power
        # As much ours as the package's own .pyc files, beside which it lies.
        return self._impl.rebuild(target, pickle.loads(content[_SUM:]))  # noqa: S301

    def save_overload(self, signature: Any, made: Any) -> None:
        """Keep what was compiled for these types, in place of what older sources came to."""
        path = self._path(signature, made.codegen)
        content = dumps(self._impl.reduce(made))  # type: ignore[no-untyped-call]
        partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            partial.write_bytes(hashlib.sha256(content).digest() + content)
            partial.rename(path)
            for other in path.parent.glob(f"{self._name}-*"):
                if not other.name.startswith(f"{self._name}-{_sources()}"):
                    other.unlink(missing_ok=True)
        except OSError as error:
            _LOGGER.warning("what was compiled cannot be kept: %s; it is compiled again at the next start", error)

    def _path(self, signature: Any, codegen: Any) -> Path:
        key = self._index_key(signature, codegen)  # type: ignore[no-untyped-call]
        types = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return Path(self.cache_path) / f"{self._name}-{_sources()}-{types}.code"


@cache
def _sources() -> str:
    """A digest of all that is compiled, and of numba: a function holds the code of those that it calls."""
    import llvmlite
    import numba

    here = Path(__file__).parent
    whole = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    for path in [*sorted(here.glob("*.py")), here.parent / "letters.py"]:
        whole.update(path.read_bytes())
    return whole.hexdigest()[:16]
