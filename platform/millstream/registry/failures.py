"""The failures of a store of MLflow, as errors that say what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from millstream.errors import MillstreamError, Unavailable

__all__ = ["store_failures_as_errors"]

_LONGEST = 200
_AGAIN = ("INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED", "DEADLINE_EXCEEDED")
"""The codes of MLflow for a server that does not answer, or not now."""


@contextmanager
def store_failures_as_errors(store: str) -> Iterator[None]:
    """Raise `Unavailable` if the store does not answer, and `MillstreamError` if it refuses."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except MlflowException as error:
        if error.error_code in _AGAIN:
            raise _unavailable(store, error) from None
        raise MillstreamError(f"the registry at {store} refused: {_short(error)}") from None
    except (SQLAlchemyError, OSError) as error:
        raise _unavailable(store, error) from None


def _unavailable(store: str, error: Exception) -> Unavailable:
    return Unavailable(
        f"the registry at {store} does not answer ({_short(error)}); correct MLFLOW_TRACKING_URI or "
        "`mlflow.tracking_uri`, or try again when it is up"
    )


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
