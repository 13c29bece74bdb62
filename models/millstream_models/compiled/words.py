"""Text to counted words: from the bytes of an Arrow column to rows of (index, count), with nothing in between.

A word is what `re.findall(r"\\b\\w\\w+\\b", text.lower())` gives. A text's words are written, in lower case, into a
buffer, those that count together with a space between; their index is a hash of such a stretch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millstream_models.compiled.jit import compiled, eight_bytes, trailing_zeros
from millstream_models.letters import CASED, IGNORABLE, LOWER, PAGE, WORD

__all__ = ["FAST", "MURMUR3", "count_words"]

FAST, MURMUR3 = 0, 1

_SPACE = 32
_SIGMA, _FINAL_SIGMA = 0x3A3, 0x3C2
_CAPITAL_I_DOT = 0x130  # its lower case is an i and a dot, which is no letter
_1, _HALF, _LOW = np.uint64(1), np.uint64(32), np.uint64(2**32 - 1)
_EIGHT = np.uint64(8)
_ONES, _TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_M = np.uint64(0x9E3779B97F4A7C15)
_FEW_BYTES = np.array([(1 << 8 * count) - 1 for count in range(8)] + [2**64 - 1], np.uint64)
_PADDING = 8  # so that eight bytes can be loaded from wherever a word begins


@compiled
def count_words(
    edges: Any,
    data: Any,
    ascii_: Any,
    pages: Any,
    entries: Any,
    dimensions: Any,
    least: Any,
    most: Any,
    kind: Any,
) -> Any:
    """Count the words of texts: `(indptr, indices, counts)`, each text's indices in the order they first occur.

    Text `n` lies in `data[edges[n]:edges[n + 1]]`. `least` to `most` words in a row count together.
    """
    texts = len(edges) - 1
    longest = 0
    for text in range(texts):
        longest = max(longest, edges[text + 1] - edges[text])
    room = longest // 3 + 1  # for words: each has two bytes or more, and something before the next
    # The ASCII, the words with other letters (the lower case of what has two bytes may have three), all words in a row.
    buffer = np.empty(longest + 2 * (longest + longest // 2) + room + 4 * _PADDING, np.uint8)
    starts, ends = np.empty(room + 1, np.int64), np.empty(room + 1, np.int64)
    states = np.empty(room + 1, np.uint64)
    slots = 64
    last = np.zeros(slots, np.uint64)  # by hash: the text that was last here (its number and 1), and where in `indices`
    capacity = max(64, (edges[texts] - edges[0]) // 5)
    indices, counts = np.empty(capacity, np.int32), np.empty(capacity, np.float32)
    indptr = np.zeros(texts + 1, np.int32)
    used = np.uint64(0)
    for text in range(texts):
        words, filled = _words(data, edges[text], edges[text + 1], ascii_, pages, entries, buffer, starts, ends)
        if kind == FAST:
            for word in range(words):
                states[word] = _fast(buffer, starts[word], ends[word])
        elif most > 1:
            _put_in_a_row(buffer, filled, starts, ends, words)
        runs = 0
        for size in range(least, most + 1):
            runs += max(0, words - size + 1)
        if np.int64(used) + runs > capacity:
            capacity = max(2 * capacity, np.int64(used) + runs)
            indices, counts = _grown(indices, np.int64(used), capacity), _grown(counts, np.int64(used), capacity)
        if 2 * runs > slots:
            while slots < 2 * runs:
                slots *= 2
            last = np.zeros(slots, np.uint64)
        this = np.uint64(text + 1) << _HALF
        for size in range(least, most + 1):
            for first in range(words - size + 1):
                if kind == FAST:
                    state = states[first]
                    for word in range(first + 1, first + size):
                        state = _mixed(state * _M, states[word])  # which comes first matters
                    index = np.int32((state >> _HALF) * np.uint64(dimensions) >> _HALF)
                else:
                    state = np.uint64(_murmur3(buffer, starts[first], ends[first + size - 1]))
                    index = np.int32(abs(np.int64(np.int32(state))) % dimensions)
                slot = (np.uint64(index) * _M >> _HALF) & np.uint64(slots - 1)
                while last[slot] >= this and indices[last[slot] & _LOW] != index:
                    slot = (slot + _1) & np.uint64(slots - 1)
                if last[slot] >= this:
                    counts[last[slot] & _LOW] += np.float32(1)
                else:
                    last[slot] = this | used
                    indices[used], counts[used] = index, np.float32(1)
                    used += _1
        indptr[text + 1] = used
    return indptr, indices[: np.int64(used)], counts[: np.int64(used)]


@compiled
def _grown(array: Any, used: Any, capacity: Any) -> Any:
    larger = np.empty(capacity, array.dtype)
    larger[:used] = array[:used]
    return larger


@compiled
def _words(
    data: Any, start: Any, stop: Any, ascii_: Any, pages: Any, entries: Any, buffer: Any, starts: Any, ends: Any
) -> Any:
    """Write a text's words in lower case into the buffer; how many there are, and where the buffer is filled to.

    The text's ASCII comes first, byte for byte, with 0 for what is in no word: such words lie there as they are, and
    where one ends is seen eight bytes at a time. Words with other letters follow behind.

    Places are unsigned here: numba would ask of every signed one whether it counts from the end.
    """
    first, size = np.uint64(start), np.uint64(stop - start)
    for byte in range(size):
        buffer[byte] = ascii_[data[first + byte]]
    for byte in range(size, size + _EIGHT):
        buffer[byte] = 0
    at = size + _EIGHT
    words: Any = np.uint64(0)
    place: Any = np.uint64(0)
    while place < size:
        begin = place
        if buffer[place]:
            zeros = np.uint64(0)
            while not zeros:
                some = eight_bytes(buffer, place)
                zeros = (some - _ONES) & ~some & _TOPS
                place += trailing_zeros(zeros) >> np.uint64(3)  # 8 if there is none
            if place == size or data[first + place] < 128:
                if place - begin >= 2:
                    starts[words], ends[words] = begin, place
                    words += _1
                place += _1
                continue
        elif data[place + first] < 128:
            place += _1
            continue
        begin, at, more, place = _mixed_word(data, start, stop, begin, place, pages, entries, buffer, at)
        if at - begin - more >= 2:
            starts[words], ends[words] = begin, at
            words += _1
        else:
            at = begin
    return np.int64(words), np.int64(at)


@compiled
def _mixed_word(
    data: Any, start: Any, stop: Any, begin: Any, place: Any, pages: Any, entries: Any, buffer: Any, at: Any
) -> Any:
    """Write a word of which the ASCII from `begin` to `place` is known, letter by letter; it may come to nothing.

    Where it begins and ends in the buffer, how many of its bytes are not the first of their letter, and where the text
    goes on.
    """
    first, size = np.uint64(start), np.uint64(stop - start)
    written, more = at, np.uint64(0)
    for known in range(begin, place):
        buffer[at] = buffer[known]
        at += _1
    while place < size:
        if data[first + place] < 128:
            lower = buffer[place]
            place += _1
            if not lower:
                break
            buffer[at] = lower
            at += _1
            continue
        here = np.int64(first + place)
        code, after = _decoded(data, here, stop)
        place = np.uint64(after) - first
        entry = entries[np.int64(pages[code // PAGE]) * PAGE + code % PAGE]
        if not entry & WORD:
            break
        letter = (code + entry) & LOWER
        if code == _SIGMA and _is_final(data, start, here, after, stop, pages, entries):
            letter = np.uint32(_FINAL_SIGMA)
        before = at
        at = np.uint64(_encoded(letter, buffer, np.int64(at)))
        more += at - before - _1
        if code == _CAPITAL_I_DOT:
            break
    return written, at, more, place


@compiled
def _put_in_a_row(buffer: Any, at: Any, starts: Any, ends: Any, words: Any) -> None:
    """Write the words once more behind all, one after the other with a space between."""
    for word in range(words):
        begin = at
        for place in range(starts[word], ends[word]):
            buffer[at] = buffer[place]
            at += 1
        starts[word], ends[word] = begin, at
        buffer[at] = _SPACE
        at += 1


@compiled
def _decoded(data: Any, place: Any, stop: Any) -> Any:
    """The character at a place, and where the next one is; what is no UTF-8 is one byte that is no letter."""
    byte = np.uint32(data[place])
    if byte < 0x80:
        return byte, place + 1
    if 0xF0 <= byte < 0xF8:
        more, least, code = 3, 0x10000, byte & np.uint32(0x07)
    elif 0xE0 <= byte < 0xF0:
        more, least, code = 2, 0x800, byte & np.uint32(0x0F)
    elif 0xC0 <= byte < 0xE0:
        more, least, code = 1, 0x80, byte & np.uint32(0x1F)
    else:
        return np.uint32(0), place + 1
    if place + more >= stop:
        return np.uint32(0), place + 1
    for step in range(1, more + 1):
        byte = np.uint32(data[place + step])
        if byte >> np.uint32(6) != 2:
            return np.uint32(0), place + 1
        code = code << np.uint32(6) | byte & np.uint32(0x3F)
    if code < least or code >= 0x110000:  # written longer than it is, or beyond all characters
        return np.uint32(0), place + 1
    return code, place + more + 1


@compiled
def _encoded(code: Any, buffer: Any, at: Any) -> Any:
    """Write a character; where the next one goes."""
    if code < 0x80:
        buffer[at] = code
        return at + 1
    if code < 0x800:
        buffer[at] = 0xC0 | code >> 6
        buffer[at + 1] = 0x80 | code & 0x3F
        return at + 2
    if code < 0x10000:
        buffer[at] = 0xE0 | code >> 12
        buffer[at + 1] = 0x80 | code >> 6 & 0x3F
        buffer[at + 2] = 0x80 | code & 0x3F
        return at + 3
    buffer[at] = 0xF0 | code >> 18
    buffer[at + 1] = 0x80 | code >> 12 & 0x3F
    buffer[at + 2] = 0x80 | code >> 6 & 0x3F
    buffer[at + 3] = 0x80 | code & 0x3F
    return at + 4


@compiled
def _is_final(data: Any, start: Any, before: Any, after: Any, stop: Any, pages: Any, entries: Any) -> Any:
    """Whether a capital sigma between `before` and `after` ends a word: a cased letter before it, and none after."""
    cased = False
    place = before
    while place > start and not cased:
        place -= 1
        while place > start and data[place] >> 6 == 2:
            place -= 1
        code, _ = _decoded(data, place, stop)
        entry = entries[np.int64(pages[code // PAGE]) * PAGE + code % PAGE]
        if entry & CASED:
            cased = True
        elif not entry & IGNORABLE:
            break
    if not cased:
        return False
    place = after
    while place < stop:
        code, place = _decoded(data, place, stop)
        entry = entries[np.int64(pages[code // PAGE]) * PAGE + code % PAGE]
        if not entry & IGNORABLE:
            return not entry & CASED
    return True


@compiled
def _fast(buffer: Any, start: Any, stop: Any) -> Any:
    """A hash of a word, eight bytes at a time; its upper half is the better one."""
    state = np.uint64(stop - start) * _M
    place = start
    while place < stop:
        state = _mixed(state, eight_bytes(buffer, place) & _FEW_BYTES[min(stop - place, 8)])
        place += 8
    return state * _M


@compiled
def _mixed(state: Any, more: Any) -> Any:
    state = (state ^ more) * _M
    return state ^ state >> _HALF


@compiled
def _murmur3(buffer: Any, start: Any, stop: Any) -> Any:
    """32 bits of MurmurHash3, seed 0, as scikit-learn's FeatureHasher has them."""
    state = np.uint32(0)
    place = start
    while place < stop:
        some = np.uint32(eight_bytes(buffer, place) & _FEW_BYTES[min(stop - place, 4)])
        some = _turned(np.uint32(some * np.uint32(0xCC9E2D51)), 15)
        state ^= np.uint32(some * np.uint32(0x1B873593))
        if stop - place >= 4:
            state = np.uint32(_turned(state, 13) * np.uint32(5) + np.uint32(0xE6546B64))
        place += 4
    state ^= np.uint32(stop - start)
    state = np.uint32((state ^ state >> np.uint32(16)) * np.uint32(0x85EBCA6B))
    state = np.uint32((state ^ state >> np.uint32(13)) * np.uint32(0xC2B2AE35))
    return state ^ np.uint32(state >> np.uint32(16))


@compiled
def _turned(some: Any, bits: Any) -> Any:
    """32 bits, turned to the left; numba would make 64 of them."""
    return np.uint32(some << np.uint32(bits)) | np.uint32(some >> np.uint32(32 - bits))
