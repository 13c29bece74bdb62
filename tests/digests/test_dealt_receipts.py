"""A receipt whose records are dealt to three processes, in random batches, is the receipt of one process."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from unittest import mock

import pyarrow as pa
import pytest

from millstream.config.pipeline import NamedStep
from millstream.digests import Digest, digest_of
from millstream.log.epochs import Added, Epoch, EpochReceipt, PartitionName
from millstream.log.ranges import records_schema
from millstream.records import in_step_order
from millstream.steps.functions import Filter, Map
from millstream.steps.graph import Graph, build_graph
from millstream.steps.keys import shards_of
from millstream.steps.per_key import PerKey
from millstream.steps.processor import EpochProcessor

FIELDS = ("text", "author", "time")
PARTITIONS = [PartitionName(source, str(n), n) for source in ("news", "old") for n in range(2)]
EPOCH = Epoch(0, {}, tuple(Added(partition, 0) for partition in PARTITIONS))
PROCESSES = 3


def graph() -> Graph:
    functions = "support.user_functions"
    shout = Map.model_validate({"function": f"{functions}:shout", "adds": ["first"], "on_error": "reject"})
    short = Filter.model_validate({"function": f"{functions}:short"})
    follow = PerKey.model_validate({"key": "author", "function": f"{functions}:follow", "adds": ["before"]})
    steps = [NamedStep("shout", shout), NamedStep("short", short), NamedStep("follow", follow)]
    return build_graph(steps, FIELDS)


def records(chance: random.Random) -> pa.Table:
    """Records of four partitions; some cannot be read, and some have no author."""
    rows = []
    for offset in range(1500):
        readable = chance.random() < 0.95
        text = " ".join(f"word{chance.randrange(20)}" for _ in range(chance.randint(1, 6)))
        author = chance.choice([*(f"author{n}" for n in range(20)), None])
        shown = {"text": text, "author": author} if readable else {"_reject": "torn"}
        rows.append({"_rank": chance.randrange(4), "_offset": offset, "_time": offset // 3, **shown})
    return pa.Table.from_pylist(rows, records_schema(FIELDS))


def by_order(table: pa.Table) -> Digest:
    """A digest that depends on the order of rows: it must not pass for a good one."""
    return digest_of(table.append_column("row", pa.array(range(table.num_rows))))


def receipts_of(share: pa.Table, seed: int, mutant: bool) -> list[EpochReceipt]:
    """The receipts of random batches of a share, in a process of its own."""
    chance, processor, found = random.Random(seed), EpochProcessor(graph()), []
    bounds = sorted({0, share.num_rows, *chance.choices(range(share.num_rows), k=20)})
    share = in_step_order(share)
    for start, stop in pairwise(bounds):
        batch = share.slice(start, stop - start)
        shuffled = batch.take(pa.array(chance.sample(range(len(batch)), len(batch))))
        with mock.patch("millstream.steps.chain.digest_of", by_order if mutant else digest_of):
            found.append(processor.process(EPOCH, shuffled).receipt)
    return found


def added(digests: Iterable[Mapping[str, Digest]]) -> dict[str, Digest]:
    total: dict[str, Digest] = {}
    for each in digests:
        for name, digest in each.items():
            total[name] = total.get(name, Digest()) + digest
    return total


def merged(receipts: list[EpochReceipt]) -> EpochReceipt:
    return EpochReceipt(
        epoch=0,
        attempt=1,
        records=sum(receipt.records for receipt in receipts),
        rejects=sum(receipt.rejects for receipt in receipts),
        inputs=added(receipt.inputs for receipt in receipts),
        streams=added(receipt.streams for receipt in receipts),
        outputs=added(receipt.outputs for receipt in receipts),
    )


@pytest.mark.parametrize("mutant", [False, True], ids=["sums", "mutant"])
def test_a_receipt_dealt_to_three_processes_is_that_of_one(mutant: bool) -> None:
    whole = records(random.Random(11))
    owner_of = shards_of(whole["author"], PROCESSES)
    shares = [whole.filter(pa.array(owner_of == share)) for share in range(PROCESSES)]
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        dealt = pool.starmap(receipts_of, [(share, seed, mutant) for seed, share in enumerate(shares)])
    together = merged([receipt for receipts in dealt for receipt in receipts])
    alone = EpochProcessor(graph()).process(EPOCH, whole).receipt
    without_watermarks = replace(alone, watermarks={}, held_by=None)  # no share of the records has those
    assert (together == without_watermarks) is not mutant
    assert set(alone.inputs) == {"news", "old"} and set(alone.streams) == {"shout", "short", "follow"}
    assert alone.records == 1500 and alone.rejects == alone.outputs["rejects"].count > 100
