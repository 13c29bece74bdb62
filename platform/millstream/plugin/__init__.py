"""All that an author of sources, sinks, steps and models needs.

A plug-in is two classes: one with the options of a config, derived from `SourceConfig`, `SinkConfig`, `StepConfig` or
`ModelConfig`; and one that does the work, derived from `Log`, `Sink`, `Step` or `Model`. A config selects the first one
by its module, `type: my_module:MyModel`. `millstream.plugin.checks` has the checks that every plug-in must pass.
"""

from millstream.arrays import Array
from millstream.config.pipeline import NamedStep
from millstream.config.plugin_bases import JoinStepConfig, ModelConfig, SinkConfig, SourceConfig, StepConfig
from millstream.errors import (
    AlteredLog,
    ConfigError,
    Contradiction,
    ForeignSink,
    InUse,
    MillstreamError,
    StepFailed,
    Truncated,
    Unavailable,
)
from millstream.log.contracts import OpenContext, Partition, Progress
from millstream.log.formats.rows import json_lines, table_of
from millstream.log.ranges import Range
from millstream.plugin.connectors import Log, Sink
from millstream.plugin.processors import JoinStep, Model, Step
from millstream.records import log_schema
from millstream.state.dirty_rows import DirtyRows
from millstream.state.keyed_state import Entries, KeyedStore
from millstream.steps.contracts import Output, Result, Scope, State, Traits, rejects_schema

__all__ = [
    "AlteredLog",
    "Array",
    "ConfigError",
    "Contradiction",
    "DirtyRows",
    "Entries",
    "ForeignSink",
    "InUse",
    "JoinStep",
    "JoinStepConfig",
    "KeyedStore",
    "Log",
    "MillstreamError",
    "Model",
    "ModelConfig",
    "NamedStep",
    "OpenContext",
    "Output",
    "Partition",
    "Progress",
    "Range",
    "Result",
    "Scope",
    "Sink",
    "SinkConfig",
    "SourceConfig",
    "State",
    "Step",
    "StepConfig",
    "StepFailed",
    "Traits",
    "Truncated",
    "Unavailable",
    "json_lines",
    "log_schema",
    "rejects_schema",
    "table_of",
]
