"""Counts the words of texts: from the bytes of an Arrow column directly to rows of (index, count).

The words of a text are those that `re.findall(r"\\b\\w\\w+\\b", text.lower())` finds. They are written to a buffer in
lower case. The index of a word is a hash of its bytes; the index of an n-gram is a hash of all its words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millstream.compiled.jit import compiled, eight_bytes, trailing_zeros
from millstream_models.compiled.letters import CASED, IGNORABLE, LOWER, PAGE, WORD

__all__ = ["FAST", "MURMUR3", "count_words"]

FAST, MURMUR3 = 0, 1

_SPACE = 32
_SIGMA, _FINAL_SIGMA = 0x3A3, 0x3C2
_CAPITAL_I_DOT = 0x130  # in lower case it is an i and a combining dot, and the dot is no letter
_1, _HALF, _LOW = np.uint64(1), np.uint64(32), np.uint64(2**32 - 1)
_EIGHT = np.uint64(8)
_ONES, _TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_M = np.uint64(0x9E3779B97F4A7C15)
_FEW_BYTES = np.array([(1 << 8 * count) - 1 for count in range(8)] + [2**64 - 1], np.uint64)
_PADDING = 8  # eight bytes can be loaded from any byte at which a word begins


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

    Text `n` is `data[edges[n]:edges[n + 1]]`. The n-grams of `least` to `most` words are counted.
    """
    texts = len(edges) - 1
    longest = 0
    for text in range(texts):
        longest = max(longest, edges[text + 1] - edges[text])
    room = longest // 3 + 1  # for words: each has at least two bytes, and another byte separates it from the next word
    # The ASCII bytes, the words with other letters (two bytes may have three in lower case), all words with spaces.
    buffer = np.empty(longest + 2 * (longest + longest // 2) + room + 4 * _PADDING, np.uint8)
    starts, ends = np.empty(room + 1, np.int64), np.empty(room + 1, np.int64)
    states = np.empty(room + 1, np.uint64)
    slots = 64
    last = np.zeros(slots, np.uint64)  # by hash: number + 1 of the last text in the slot, and the word's in `indices`
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
            _join_words(buffer, filled, starts, ends, words)
        runs = 0
        for size in range(least, most + 1):
            runs += max(0, words - size + 1)
        if np.int64(used) + runs > capacity:
            capacity = max(2 * capacity, np.int64(used) + runs)
            indices, counts = _enlarge(indices, np.int64(used), capacity), _enlarge(counts, np.int64(used), capacity)
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
                        state = _mix(state * _M, states[word])  # the order of the words matters
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
def _enlarge(array: Any, used: Any, capacity: Any) -> Any:
    larger = np.empty(capacity, array.dtype)
    larger[:used] = array[:used]
    return larger


@compiled
def _words(
    data: Any, start: Any, stop: Any, ascii_: Any, pages: Any, entries: Any, buffer: Any, starts: Any, ends: Any
) -> Any:
    """Write a text's words in lower case to the buffer; return their number and the end of the filled buffer.

    The ASCII bytes of the text come first, one for each byte of the text, with 0 for a byte that is in no word. ASCII
    words are not copied again, and their ends are found eight bytes at a time. Words with other letters follow.

    Offsets are unsigned here: for a signed one, numba would check whether it counts from the end.
    """
    first, size = np.uint64(start), np.uint64(stop - start)
    for byte in range(size):
        buffer[byte] = ascii_[data[first + byte]]
    for byte in range(size, size + _EIGHT):
        buffer[byte] = 0
    at = size + _EIGHT
    words: Any = np.uint64(0)
    offset: Any = np.uint64(0)
    while offset < size:
        begin = offset
        if buffer[offset]:
            zeros = np.uint64(0)
            while not zeros:
                some = eight_bytes(buffer, offset)
                zeros = (some - _ONES) & ~some & _TOPS
                offset += trailing_zeros(zeros) >> np.uint64(3)  # 8 if there is none
            if offset == size or data[first + offset] < 128:
                if offset - begin >= 2:
                    starts[words], ends[words] = begin, offset
                    words += _1
                offset += _1
                continue
        elif data[offset + first] < 128:
            offset += _1
            continue
        begin, at, more, offset = _mixed_word(data, start, stop, begin, offset, pages, entries, buffer, at)
        if at - begin - more >= 2:
            starts[words], ends[words] = begin, at
            words += _1
        else:
            at = begin
    return np.int64(words), np.int64(at)


@compiled
def _mixed_word(
    data: Any, start: Any, stop: Any, begin: Any, offset: Any, pages: Any, entries: Any, buffer: Any, at: Any
) -> Any:
    """Write a word letter by letter, of which the ASCII bytes from `begin` to `offset` are known; it may be empty.

    Returns the word's start and end in the buffer, the number of its bytes that are not the first byte of a letter, and
    the offset at which the text goes on.
    """
    first, size = np.uint64(start), np.uint64(stop - start)
    written, more = at, np.uint64(0)
    for known in range(begin, offset):
        buffer[at] = buffer[known]
        at += _1
    while offset < size:
        if data[first + offset] < 128:
            lower = buffer[offset]
            offset += _1
            if not lower:
                break
            buffer[at] = lower
            at += _1
            continue
        here = np.int64(first + offset)
        code, after = _decode(data, here, stop)
        offset = np.uint64(after) - first
        entry = entries[np.int64(pages[code // PAGE]) * PAGE + code % PAGE]
        if not entry & WORD:
            break
        letter = (code + entry) & LOWER
        if code == _SIGMA and _is_final(data, start, here, after, stop, pages, entries):
            letter = np.uint32(_FINAL_SIGMA)
        before = at
        at = np.uint64(_encode(letter, buffer, np.int64(at)))
        more += at - before - _1
        if code == _CAPITAL_I_DOT:
            break
    return written, at, more, offset


@compiled
def _join_words(buffer: Any, at: Any, starts: Any, ends: Any, words: Any) -> None:
    """Write the words again at the end of the buffer, with a space after each."""
    for word in range(words):
        begin = at
        for offset in range(starts[word], ends[word]):
            buffer[at] = buffer[offset]
            at += 1
        starts[word], ends[word] = begin, at
        buffer[at] = _SPACE
        at += 1


@compiled
def _decode(data: Any, offset: Any, stop: Any) -> Any:
    """The character at an offset, and the offset of the next one; a byte that is not UTF-8 counts as no letter."""
    byte = np.uint32(data[offset])
    if byte < 0x80:
        return byte, offset + 1
    if 0xF0 <= byte < 0xF8:
        more, least, code = 3, 0x10000, byte & np.uint32(0x07)
    elif 0xE0 <= byte < 0xF0:
        more, least, code = 2, 0x800, byte & np.uint32(0x0F)
    elif 0xC0 <= byte < 0xE0:
        more, least, code = 1, 0x80, byte & np.uint32(0x1F)
    else:
        return np.uint32(0), offset + 1
    if offset + more >= stop:
        return np.uint32(0), offset + 1
    for step in range(1, more + 1):
        byte = np.uint32(data[offset + step])
        if byte >> np.uint32(6) != 2:
            return np.uint32(0), offset + 1
        code = code << np.uint32(6) | byte & np.uint32(0x3F)
    if code < least or code >= 0x110000:  # an overlong encoding, or beyond all characters
        return np.uint32(0), offset + 1
    return code, offset + more + 1


@compiled
def _encode(code: Any, buffer: Any, at: Any) -> Any:
    """Write a character at `at`; return the offset after it."""
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
    """Test if a capital sigma between `before` and `after` ends a word: a cased letter before it, and none after."""
    cased = False
    offset = before
    while offset > start and not cased:
        offset -= 1
        while offset > start and data[offset] >> 6 == 2:
            offset -= 1
        code, _ = _decode(data, offset, stop)
        entry = entries[np.int64(pages[code // PAGE]) * PAGE + code % PAGE]
        if entry & CASED:
            cased = True
        elif not entry & IGNORABLE:
            break
    if not cased:
        return False
    offset = after
    while offset < stop:
        code, offset = _decode(data, offset, stop)
        entry = entries[np.int64(pages[code // PAGE]) * PAGE + code % PAGE]
        if not entry & IGNORABLE:
            return not entry & CASED
    return True


@compiled
def _fast(buffer: Any, start: Any, stop: Any) -> Any:
    """A hash of a word, eight bytes at a time; its upper half is the better one."""
    state = np.uint64(stop - start) * _M
    offset = start
    while offset < stop:
        state = _mix(state, eight_bytes(buffer, offset) & _FEW_BYTES[min(stop - offset, 8)])
        offset += 8
    return state * _M


@compiled
def _mix(state: Any, more: Any) -> Any:
    state = (state ^ more) * _M
    return state ^ state >> _HALF


@compiled
def _murmur3(buffer: Any, start: Any, stop: Any) -> Any:
    """The 32 bits of MurmurHash3 with seed 0, as in scikit-learn's FeatureHasher."""
    state = np.uint32(0)
    offset = start
    while offset < stop:
        some = np.uint32(eight_bytes(buffer, offset) & _FEW_BYTES[min(stop - offset, 4)])
        some = _rotate_left(np.uint32(some * np.uint32(0xCC9E2D51)), 15)
        state ^= np.uint32(some * np.uint32(0x1B873593))
        if stop - offset >= 4:
            state = np.uint32(_rotate_left(state, 13) * np.uint32(5) + np.uint32(0xE6546B64))
        offset += 4
    state ^= np.uint32(stop - start)
    state = np.uint32((state ^ state >> np.uint32(16)) * np.uint32(0x85EBCA6B))
    state = np.uint32((state ^ state >> np.uint32(13)) * np.uint32(0xC2B2AE35))
    return state ^ np.uint32(state >> np.uint32(16))


@compiled
def _rotate_left(some: Any, bits: Any) -> Any:
    """Rotate 32 bits to the left; without the casts, numba would compute with 64 bits."""
    return np.uint32(some << np.uint32(bits)) | np.uint32(some >> np.uint32(32 - bits))
