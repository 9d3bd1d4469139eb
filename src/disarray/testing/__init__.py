"""The kit with which a third party proves a new instrument description.

Knows formats and kernels; must not know a database, a worker or pytest.
"""

from disarray.testing.check import Checked, Expect, check_format

__all__ = ["Checked", "Expect", "check_format"]
