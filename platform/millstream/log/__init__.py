"""Logs: the contracts of connectors, the epoch log, journals and formats; `open` opens a log by its URL.

>>> import tempfile
>>> folder = tempfile.mkdtemp()
>>> with open(folder).appender() as append:
...     append([b'{"text": "rain"}'])
>>> list(open(f"journal://{folder}").entries())
[b'{"text": "rain"}']
"""

from millstream.log.urls import open_url as open

__all__ = ["open"]
