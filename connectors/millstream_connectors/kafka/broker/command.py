"""`millstream kafka`: a Kafka broker on this machine, without Docker."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

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

    Apache Kafka is fetched once (45 MB, into the user's cache) and needs Java 17. A broker is one node that listens on
    the loopback only, and is known by its data folder: with other folders and ports there may be several.
    """


@kafka.command()
@click.option("--port", type=click.IntRange(1, 65535), help="The port to listen on; 9092 unless given.")
@_data
def up(port: int | None, data: Path | None) -> None:
    """Start the broker; it goes on until it is stopped."""
    broker = _broker(data, port)
    with _told() as tell:
        began = broker.up(tell)
    click.echo(f"{'up' if began else 'up already'}: {broker.bootstrap}, data in {broker.data}")


@kafka.command()
@_data
def down(data: Path | None) -> None:
    """Stop the broker; its data stay."""
    broker = _broker(data)
    click.echo(f"{'down' if broker.down() else 'was not up'}; data in {broker.data}")


@kafka.command()
@_data
def reset(data: Path | None) -> None:
    """Stop the broker and delete its data."""
    broker = _broker(data)
    click.echo(f"deleted {broker.data}" if broker.reset() else f"there is nothing at {broker.data}")


@kafka.command()
@_data
def status(data: Path | None) -> int:
    """Show whether the broker is up, and what it holds.

    Exits with 0 if it is up, and with 1 if it is down. Messages take an offset each, and so do the marks of
    transactions.
    """
    broker = _broker(data)
    running = broker.running()
    if running is None:
        click.echo(f"down; data in {broker.data}")
        return 1
    click.echo(f"up: {broker.bootstrap}, process {running.pid}, data in {broker.data}")
    topics = broker.topics()
    width = max((len(topic.name) for topic in topics), default=0)
    for topic in topics:
        partitions = "partition " if topic.partitions == 1 else "partitions"
        click.echo(f"  {topic.name:<{width}}  {topic.partitions} {partitions}  {topic.messages:,} offsets")
    return 0


def _broker(data: Path | None, port: int | None = None) -> Broker:
    """The broker of this folder; on the port where it is up, unless told otherwise."""
    from millstream_connectors.kafka.broker import PORT, Broker, default_data

    data = data or default_data()
    running = Broker(data).running()
    return Broker(data, port or (running.port if running else PORT))


@contextmanager
def _told() -> Iterator[Callable[[str], None]]:
    """Shows on standard error what is going on; on a terminal, what moves on stays in one line."""
    erase = "\r\033[K" if sys.stderr.isatty() else ""
    moving = False

    def tell(message: str) -> None:
        nonlocal moving
        click.echo(erase if moving else "", nl=False, err=True)
        moving = bool(erase) and message.endswith("...")
        click.echo(message, nl=not moving, err=True)

    try:
        yield tell
    finally:
        click.echo(erase if moving else "", nl=False, err=True)
