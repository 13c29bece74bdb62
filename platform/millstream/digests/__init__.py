"""Digests that are sums: the digests of disjoint sets of rows add up to the digest of all of them.

`docs/internals/formats.md` defines the hash of a row. A digest detects accidents, not an adversary.
"""

from millstream.digests.digest import Digest
from millstream.digests.rows import digest_of, digests_by, row_hashes

__all__ = ["Digest", "digest_of", "digests_by", "row_hashes"]
