"""The compiled search for matches of records with one key, and the chains of the records of each key.

The records of a side are in slots, and each key has a chain of slots for each side, in the order of arrival. The first
index of an array is the side: `heads` and `tails` have for each key the ends of its chain, -1 for none; `following` has
for each slot the next one in its chain.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millstream.compiled.jit import compiled

__all__ = ["chain", "find_matches", "slots_of"]


@compiled
def find_matches(
    sides: Any,
    codes: Any,
    places: Any,
    bound: Any,
    slots: Any,
    heads: Any,
    tails: Any,
    following: Any,
    place_of: Any,
    live: Any,
    matched: Any,
) -> Any:
    """Put records into their `slots`, one after the other, and match each with those of the other side before it.

    Two records of a key are a match if their places are at most `bound` apart. Return for each match the number of the
    record, the slot of the other one, and the number of the match among those of its record.
    """
    rows, others, numbers = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64)
    found = 0
    for row in range(len(sides)):
        side, code, place, slot = sides[row], codes[row], places[row], slots[row]
        other = 1 - side
        number, before, at = 0, -1, heads[other, code]
        while at >= 0:
            after = following[other, at]
            if not live[other, at]:
                if before < 0:
                    heads[other, code] = after
                else:
                    following[other, before] = after
                if after < 0:
                    tails[other, code] = before
            else:
                if -bound <= place_of[other, at] - place <= bound:
                    if found == len(rows):
                        rows = np.append(rows, np.empty(found, np.int64))
                        others = np.append(others, np.empty(found, np.int64))
                        numbers = np.append(numbers, np.empty(found, np.int64))
                    rows[found], others[found], numbers[found] = row, at, number
                    matched[other, at] = matched[side, slot] = True
                    number += 1
                    found += 1
                before = at
            at = after
        place_of[side, slot] = place
        live[side, slot] = True
        _append(side, code, slot, heads, tails, following)
    return rows[:found], others[:found], numbers[:found]


@compiled
def chain(side: Any, codes: Any, slots: Any, heads: Any, tails: Any, following: Any) -> None:
    """Append these slots, which hold records of these keys, to the chains."""
    for index in range(len(codes)):
        _append(side, codes[index], slots[index], heads, tails, following)


@compiled
def slots_of(side: Any, codes: Any, heads: Any, following: Any, live: Any) -> Any:
    """The live slots of these keys on a side, one key after the other, and the number of slots up to each key's end."""
    slots, found = np.empty(64, np.int64), 0
    stops = np.empty(len(codes), np.int64)
    for index in range(len(codes)):
        at = heads[side, codes[index]]
        while at >= 0:
            if live[side, at]:
                if found == len(slots):
                    slots = np.append(slots, np.empty(found, np.int64))
                slots[found] = at
                found += 1
            at = following[side, at]
        stops[index] = found
    return slots[:found], stops


@compiled
def _append(side: Any, code: Any, slot: Any, heads: Any, tails: Any, following: Any) -> None:
    following[side, slot] = -1
    last = tails[side, code]
    if last < 0:
        heads[side, code] = slot
    else:
        following[side, last] = slot
    tails[side, code] = slot
