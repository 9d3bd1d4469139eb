"""The kit with which a third party proves a new instrument description."""

from disarray.testing.check import Checked, Expect, check_format

__all__ = ["Checked", "Expect", "check_format"]
