"""The machine code of compiled functions, cached on disk for the next start.

numba's own cache names its files by numbers from an index file. If a process dies between writing the code and the
index, or if two processes compile at the same time, the index names the wrong code. In this cache the name of a file
has a digest of everything that its code depends on, and the content has a checksum: a file has the right code or is
ignored.
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

__all__ = ["CodeCache"]

_LOGGER = logging.getLogger(__name__)
_SUM = hashlib.sha256().digest_size


class CodeCache(FunctionCache):
    """The cached code of one function, in the folder that numba would use; a RuntimeError if there is none."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        module = function.__module__.rpartition(".")[2]
        self._name = f"{module}.{function.__qualname__}.{sys.implementation.cache_tag}"
        self._sources = _sources(Path(function.__code__.co_filename).parent)
        # raises an AttributeError here and not at the first call, if a later numba has other names
        self._index_key, self._impl.rebuild, self._impl.reduce, self.cache_path  # noqa: B018

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Load the code for these types, or None if it is not in the cache."""
        target.refresh()
        try:
            content = self._path(signature, target.codegen()).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(content[_SUM:]).digest() != content[:_SUM]:
            return None  # half written when the power failed
        # As trustworthy as the package's own .pyc files, which are in the same folder.
        return self._impl.rebuild(target, pickle.loads(content[_SUM:]))  # noqa: S301

    def save_overload(self, signature: Any, made: Any) -> None:
        """Cache the code for these types, and delete the function's code that was compiled from older sources."""
        path = self._path(signature, made.codegen)
        content = dumps(self._impl.reduce(made))  # type: ignore[no-untyped-call]
        partial = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            partial.write_bytes(hashlib.sha256(content).digest() + content)
            partial.rename(path)
            for other in path.parent.glob(f"{self._name}-*"):
                if not other.name.startswith(f"{self._name}-{self._sources}"):
                    other.unlink(missing_ok=True)
        except OSError as error:
            _LOGGER.warning("compiled code cannot be cached: %s; it will be compiled again at the next start", error)

    def _path(self, signature: Any, codegen: Any) -> Path:
        key = self._index_key(signature, codegen)  # type: ignore[no-untyped-call]
        types = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return Path(self.cache_path) / f"{self._name}-{self._sources}-{types}.code"


@cache
def _sources(folder: Path) -> str:
    """A digest of numba's version and of all sources in a function's folder and in this folder.

    The code of a function contains the code of the functions that it calls, so compiled functions of other folders must
    not be called.
    """
    import llvmlite
    import numba

    whole = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    for each in dict.fromkeys([Path(__file__).parent, folder]):
        for path in sorted(each.glob("*.py")):
            whole.update(path.read_bytes())
    return whole.hexdigest()[:16]
