"""Nodes, which describe the arrays of a batch to the compiled hash of rows.

A node is a row of an int64 array: its kind; the bytes of a value or of an offset; the address of the validity bits, or
0 if there are no nulls; the index of the first row; the addresses of the values or offsets, and of the bytes of texts;
the number of the first child's node, and the number of children.
"""

__all__ = ["BITS", "BYTES", "FIELDS", "FIXED", "FIXED_LIST", "FLOAT", "LIST", "NOTHING", "STRUCT", "TEXT"]

FIELDS = 8

NOTHING = 0
"""Null in each row."""
BITS = 1
FIXED = 2
"""Numbers of 1, 2, 4 or 8 bytes."""
FLOAT = 3
BYTES = 4
"""As many bytes in each row."""
TEXT = 5
"""Bytes between two offsets."""
LIST = 6
FIXED_LIST = 7
"""As many elements in each row; their number is the node's width."""
STRUCT = 8
"""Its width is 1 if its children have no children."""
