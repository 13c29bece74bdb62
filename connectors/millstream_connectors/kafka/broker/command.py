"""The command `millstream kafka`: a Kafka broker on this machine, without Docker."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millstream.plain_text import one_line, printable

if TYPE_CHECKING:
    from millstream_connectors.kafka.broker import Broker

__all__ = ["kafka"]

_data = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="The broker's folder; millstream/kafka in $XDG_DATA_HOME (~/.local/share) unless given.",
)


@click.group()
def kafka() -> None:
    """Start and stop a Kafka broker on this machine, without Docker.

    Apache Kafka is downloaded once (45 MB, into the user's cache) and needs Java 17. A broker is one node that listens
    on the loopback only. Its data folder identifies it: several brokers need different folders and ports.
    """


@kafka.command()
@click.option("--port", type=click.IntRange(1, 65535), help="The port to listen on; 9092 unless given.")
@_data
def up(port: int | None, data: Path | None) -> None:
    """Start the broker; it runs until it is stopped."""
    broker = _broker(data, port)
    with _progress() as report:
        started = broker.up(report)
    _echo(f"{'up' if started else 'up already'}: {broker.bootstrap}, data in {broker.data}")


@kafka.command()
@_data
def down(data: Path | None) -> None:
    """Stop the broker and keep its data."""
    broker = _broker(data)
    _echo(f"{'down' if broker.down() else 'was not up'}; data in {broker.data}")


@kafka.command()
@_data
def reset(data: Path | None) -> None:
    """Stop the broker and delete its data."""
    broker = _broker(data)
    _echo(f"deleted {broker.data}" if broker.reset() else f"{broker.data} does not exist")


@kafka.command()
@_data
def status(data: Path | None) -> int:
    """Show whether the broker is up, and its topics.

    Exits with 0 if it is up, and with 1 if it is down. Each message takes one offset, and so does each end of a
    transaction.
    """
    broker = _broker(data)
    running = broker.running()
    if running is None:
        _echo(f"down; data in {broker.data}")
        return 1
    _echo(f"up: {broker.bootstrap}, process {running.pid}, data in {broker.data}")
    topics = broker.topics()
    width = max((len(topic.name) for topic in topics), default=0)
    for topic in topics:
        partitions = "partition " if topic.partitions == 1 else "partitions"
        _echo(f"  {topic.name:<{width}}  {topic.partitions} {partitions}  {topic.messages:,} offsets")
    return 0


def _echo(line: str) -> None:
    click.echo(one_line(line))


def _broker(data: Path | None, port: int | None = None) -> Broker:
    """The broker of this folder, on the given port, or else on the port where it is up."""
    from millstream_connectors.kafka.broker import PORT, Broker, default_data

    data = data or default_data()
    running = Broker(data).running()
    return Broker(data, port or (running.port if running else PORT))


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Prints messages on standard error; on a terminal, a message that ends in `...` is replaced by the next one."""
    erase = "\r\033[K" if sys.stderr.isatty() else ""
    replaceable = False

    def report(message: str) -> None:
        nonlocal replaceable
        click.echo(erase if replaceable else "", nl=False, err=True)
        replaceable = bool(erase) and message.endswith("...")
        click.echo(printable(message), nl=not replaceable, err=True)

    try:
        yield report
    finally:
        click.echo(erase if replaceable else "", nl=False, err=True)
