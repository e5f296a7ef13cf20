"""Linear interpolation in a table, against `numpy.interp`."""

import numpy as np

from vehicled.maths.linear_table import LinearTable


def test_values_equal_numpy_interp_inside_outside_and_at_the_points():
    rng = np.random.default_rng(0)
    x, y = np.cumsum(rng.uniform(0.01, 1.0, 50)), rng.normal(size=50)
    table = LinearTable(x, y)
    at = np.concatenate([rng.uniform(-1.0, x[-1] + 1.0, 2000), x, [np.inf, -np.inf, np.nan]])
    assert np.array_equal([table(v) for v in at], np.interp(at, x, y), equal_nan=True)
