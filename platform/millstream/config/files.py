"""The files of a config: the config itself and its overlays, and files with one value for `${file:PATH}`."""

from __future__ import annotations

from pathlib import Path

from millstream.errors import ConfigError
from millstream.suggestions import suggestion

__all__ = ["config_text", "value_of_file"]

_LONGEST_VALUE = 1 << 20


def config_text(file: Path) -> str:
    """Return the text of a config or an overlay; `ConfigError` if the file cannot be read."""
    try:
        return file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        neighbours = [found.name for found in file.parent.glob("*.y*ml")] if file.parent.is_dir() else []
        message = f"{file}: no such file{suggestion(file.name, neighbours, shown=file.with_name)}"
    except IsADirectoryError:
        message = f"{file}: a folder, not a config file"
    except UnicodeDecodeError as error:
        message = f"{file}: not UTF-8 at byte {error.start}; save it as UTF-8"
    except OSError as error:
        message = f"{file}: {error.strerror}"
    raise ConfigError(message)


def value_of_file(file: Path) -> str:
    """Return the text of a file without its last newline; `ConfigError` if the file holds no text of at most 1 MiB."""
    try:
        with file.open("rb") as opened:
            content = opened.read(_LONGEST_VALUE + 1)
        text = content.decode()
    except FileNotFoundError:
        message = f"there is no file {file}; put the value there, or correct the path"
    except IsADirectoryError:
        message = f"{file} is a folder, not a file with a value"
    except UnicodeDecodeError as error:
        message = f"{file} is not UTF-8 at byte {error.start}; a value is text"
    except OSError as error:
        message = f"{file} cannot be read: {error.strerror}"
    except ValueError as error:
        message = f"{str(file)!r} is no path: {error}"
    else:
        if len(content) <= _LONGEST_VALUE:
            return text.removesuffix("\r\n") if text.endswith("\r\n") else text.removesuffix("\n")
        message = f"{file} is longer than 1 MiB, which is too long for a value"
    raise ConfigError(message)
