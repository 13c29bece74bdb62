"""The former name of support.pipelines and support.documents."""

from __future__ import annotations

from support.documents import EPOCH_RECORDS, EPOCHS, write_documents
from support.pipelines import InjectedCrash, Pipeline, crash, results, sinks_of

__all__ = ["EPOCHS", "EPOCH_RECORDS", "InjectedCrash", "Pipeline", "crash", "results", "sinks_of", "write_documents"]
