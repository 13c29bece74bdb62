"""The words of any text are those that Python and scikit-learn find."""

from __future__ import annotations

import itertools
import random
import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import HashingVectorizer

from millstream_models.compiled.letters import PAGE, WORD, letters
from millstream_models.features import Counted
from millstream_models.hashed_text import HashedText

DIMENSIONS = 1 << 20
PLAIN = HashedText(dimensions=DIMENSIONS, hash="murmur3")


def matrix(rows: Counted) -> csr_matrix:
    made = csr_matrix((rows.data, rows.indices, rows.indptr), rows.shape)
    made.sort_indices()
    return made


def differing(texts: list[str], ngrams: tuple[int, int] = (1, 1)) -> list[str]:
    """The texts in which Millstream finds other words than scikit-learn."""
    found = matrix(HashedText(dimensions=DIMENSIONS, ngrams=ngrams, hash="murmur3").count(pa.array(texts, pa.string())))
    vectorizer = HashingVectorizer(n_features=DIMENSIONS, alternate_sign=False, norm=None, ngram_range=ngrams)
    rows = np.unique((found != vectorizer.transform(texts)).nonzero()[0])
    return [texts[row] for row in rows.tolist()]


def newer() -> frozenset[str]:
    """Letters and digits that this Python knows and that Unicode did not have when the table was made."""
    if unicodedata.unidata_version == "14.0.0":
        return frozenset()
    _, pages, entries = letters()
    return frozenset(
        chr(code)
        for code in range(0x110000)
        if chr(code).isalnum() and not entries[int(pages[code // PAGE]) * PAGE + code % PAGE] & WORD
    )


NEWER = newer()


def some_unicode(dice: random.Random) -> str:
    """Text with characters of all planes that the table's Unicode version assigns, many with special rules for case."""
    pools = ((32, 126), (0x80, 0x5FF), (0x600, 0xD7FF), (0xE000, 0x10FFFF))
    signs = []
    for _ in range(dice.randint(0, 40)):
        if dice.random() < 0.15:
            signs.append(dice.choice("ΣΑας'·İ\u0131\u017fßǅʰ\u0345\u0307 _-"))
        elif unicodedata.category(sign := chr(dice.randint(*dice.choices(pools, (40, 20, 25, 10))[0]))) != "Cn":
            signs.append(sign)
    return "".join(sign for sign in signs if sign not in NEWER)


@pytest.mark.parametrize("ngrams", [(1, 1), (1, 2), (2, 3)])
def test_words_of_random_unicode_are_those_of_scikit_learn(ngrams: tuple[int, int]) -> None:
    dice = random.Random(7)
    assert differing([some_unicode(dice) for _ in range(8000)], ngrams) == []


def test_the_lower_case_of_a_capital_sigma_is_the_one_of_python_in_any_position() -> None:
    signs = ("a", "Σ", "ʰ", "'", "1", " ")
    texts = ["".join(text) for size in range(1, 6) for text in itertools.product(signs, repeat=size)]
    assert differing(texts) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "مرحبا بالعالم مرحبا",
        "שלום עולם",
        "東京は日本の首都です 北京",
        "🙂🙂 fine 👩‍👩‍👧 family 🇩🇪",
        "cafe\u0301 Ångström A\u030angström",
        "\0nul\0inside\0",
        "İstanbul ISPARTA \u0131sparta\u0131",
        "x" * 3_000_000 + " " + "Ⱥ" * 500_000,
        "again " * 1_000_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_words_of_any_text_are_those_of_scikit_learn(text: str) -> None:
    assert differing([text, "between", text]) == []


def test_a_word_that_occurs_a_million_times_is_one_entry() -> None:
    rows = PLAIN.count(pa.array(["again " * 1_000_000]))
    assert rows.data.tolist() == [1_000_000.0]


def test_words_come_in_the_order_in_which_they_first_occur() -> None:
    one = {word: int(PLAIN.count(pa.array([word])).indices[0]) for word in ("night", "train", "late")}
    assert PLAIN.count(pa.array(["night train night late train"])).indices.tolist() == list(one.values())


@pytest.mark.parametrize("hash", ["fast", "murmur3"])
def test_rows_do_not_depend_on_the_layout_of_the_texts_in_memory(hash: str) -> None:
    dice = random.Random(3)
    texts: list[str | None] = [some_unicode(dice) if dice.random() < 0.9 else None for _ in range(300)]
    config = HashedText(dimensions=512, ngrams=(1, 2), hash=hash)
    whole = config.count(pa.array(texts))
    for array in (
        pa.array(["something else", *texts])[1:],
        pa.array(texts, pa.large_string()),
        pa.concat_arrays([pa.array(texts[:100]), pa.array(texts[100:])]),
    ):
        again = config.count(array)
        for ours, theirs in zip(
            (whole.indptr, whole.indices, whole.data), (again.indptr, again.indices, again.data), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)
    alone = [config.count(pa.array([text], pa.string())) for text in texts]
    np.testing.assert_array_equal(np.concatenate([row.indices for row in alone]), whole.indices)


def test_the_fast_hash_has_no_more_collisions_than_chance() -> None:
    words = [f"{stem}{number}" for stem in ("word", "тема", "w", "somethinglonger") for number in range(10, 5010)]
    indices = HashedText(dimensions=DIMENSIONS).count(pa.array(words)).indices
    expected = DIMENSIONS * (1 - (1 - 1 / DIMENSIONS) ** len(words))
    assert abs(len(np.unique(indices)) - expected) < 4 * len(words) / np.sqrt(2 * DIMENSIONS)
    few = HashedText(dimensions=7).count(pa.array(words))
    assert np.bincount(few.indices, minlength=7).min() > len(few.indices) / 7 * 0.8


@pytest.mark.parametrize("hash", ["fast", "murmur3"])
def test_words_in_a_row_count_in_their_order(hash: str) -> None:
    pairs = HashedText(dimensions=DIMENSIONS, ngrams=(2, 3), hash=hash)
    texts = [
        "night train",
        "train night",
        "nighttrain late",
        "night late train",
        "late night train",
        "a1 a1",
        "a1 a1 a1",
    ]
    found = [row.indices.tolist() for text in texts for row in [pairs.count(pa.array([text]))]]
    assert [len(row) for row in found] == [1, 1, 1, 3, 3, 1, 2]
    assert len({index for row in found for index in row}) == 10  # "night train" and "a1 a1" come twice


def test_bytes_that_are_not_utf_8_only_end_a_word() -> None:
    pieces = [
        b"goal\xff late",
        b"\xc3",
        b"\xe2\x82",
        b"train \xf4\x90\x80\x80 night",
        b"\x80\x80ab\xc3(",
        b"\xc1\xa2\xc1\xa2 \xf8\x80\x81\xa2 ok",
    ]
    edges = np.cumsum([0, *(len(piece) for piece in pieces)]).astype(np.int32)
    broken = pa.Array.from_buffers(
        pa.string(), len(pieces), [None, pa.py_buffer(edges), pa.py_buffer(b"".join(pieces))]
    )
    clean = pa.array(["goal late", "", "", "train night", "ab", "ok"])
    for ours, theirs in zip(
        (PLAIN.count(broken).indices, PLAIN.count(broken).indptr),
        (PLAIN.count(clean).indices, PLAIN.count(clean).indptr),
        strict=True,
    ):
        np.testing.assert_array_equal(ours, theirs)
