"""Features in Arrow and in SciPy are the same numbers in the same memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_matrix, random

from millstream.errors import ConfigError
from millstream_models.features import compacted, dimensions_of, features_field, to_arrow, to_csr


def rows(seed: int = 0) -> csr_matrix:
    made = csr_matrix(random(50, 300, density=0.05, format="csr", dtype=np.float32, rng=seed))
    made.data = np.ceil(made.data * 4)
    return made


def test_a_matrix_is_the_same_after_conversion_to_arrow_and_back() -> None:
    assert (to_csr(to_arrow(rows()), 300) != rows()).nnz == 0


def test_arrow_uses_the_memory_of_the_matrix() -> None:
    matrix = rows()
    pairs = to_arrow(matrix).values
    assert pairs.field(0).buffers()[1].address == matrix.indices.ctypes.data
    assert pairs.field(1).buffers()[1].address == matrix.data.ctypes.data


def test_the_matrix_uses_the_indices_of_arrow() -> None:
    column = to_arrow(rows())
    assert to_csr(column, 300).indices.ctypes.data == column.values.field(0).buffers()[1].address


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (0, 7), (13, 31), (49, 50), (50, 50)])
def test_a_slice_of_the_column_is_a_slice_of_the_matrix(start: int, stop: int) -> None:
    assert (to_csr(to_arrow(rows())[start:stop], 300) != rows()[start:stop]).nnz == 0


def test_a_missing_list_is_an_empty_row_also_if_it_has_values_in_memory() -> None:
    whole = to_arrow(rows())
    present = np.arange(50) % 3 != 0
    holes = pa.ListArray.from_arrays(whole.offsets, whole.values, mask=pa.array(~present))
    expected = rows().toarray() * present[:, None]
    for start in (0, 5):
        np.testing.assert_array_equal(to_csr(holes[start:], 300).toarray(), expected[start:])


def test_compacted_rows_have_the_same_products() -> None:
    weights = np.random.default_rng(1).normal(size=(300, 3))
    dimensions, compact = compacted(rows())
    assert compact.shape[1] == len(dimensions) < 300
    np.testing.assert_array_equal(compact @ weights[dimensions], rows() @ weights)


def test_the_field_says_how_many_dimensions_there_are() -> None:
    assert dimensions_of(pa.schema([features_field(77)])) == 77


def test_a_schema_without_features_is_refused_with_a_step_that_makes_them() -> None:
    with pytest.raises(ConfigError, match=r"no column 'features', only text, label; .* \{type: hashed_text\}"):
        dimensions_of(pa.schema([("text", pa.string()), ("label", pa.string())]))


def test_features_of_unknown_size_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"does not say how many dimensions it has; .*features_field"):
        dimensions_of(pa.schema([("features", features_field(1).type)]))
