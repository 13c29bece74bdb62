"""The former place of `assert_promise`."""

from __future__ import annotations

from support.pipelines import assert_promise as expect

__all__ = ["expect"]
