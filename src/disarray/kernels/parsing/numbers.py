"""Text to numbers, twice: whole columns through Arrow, and one cell exactly as the rule says.

Whatever the column way accepts, the exact way accepts with the same bits; the column way only refuses more.
That is what makes the result independent of which lines happen to stand beside each other.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from disarray.kernels.parsing.cells import BLANKS as BLANKS
from disarray.kernels.parsing.rejects import RejectReason, RowRejected

# So many characters fit into int64 whatever they are; longer ones take the exact way.
_SAFE_INT_BYTES = 18
_INT64 = range(-(1 << 63), 1 << 63)
# As C's strtod and Arrow spell them.
_NONFINITE = re.compile(r"[+-]?(inf|infinity|nan(\([A-Za-z0-9_]*\))?)", re.IGNORECASE)


@dataclass(frozen=True)
class NumberSyntax:
    """How a format writes numbers."""

    decimal: str = "."
    thousands: str = ""

    @cached_property
    def float_pattern(self) -> str:
        """RE2 and Python agree on this subset: ASCII digits alone, no underscores, no hex."""
        digits = self._digits
        point = re.escape(self.decimal)
        return rf"^[+-]?({digits}({point}[0-9]*)?|{point}[0-9]+)([eE][+-]?[0-9]+)?$"

    @cached_property
    def int_pattern(self) -> str:
        """A whole number of any length."""
        return rf"^[+-]?{self._digits}$"

    @property
    def _digits(self) -> str:
        if not self.thousands:
            return "[0-9]+"
        return rf"([0-9]+|[0-9]{{1,3}}({re.escape(self.thousands)}[0-9]{{3}})+)"

    @cached_property
    def _float_regex(self) -> re.Pattern[str]:
        return re.compile(self.float_pattern.replace("$", r"\Z"))

    @cached_property
    def _int_regex(self) -> re.Pattern[str]:
        return re.compile(self.int_pattern.replace("$", r"\Z"))

    def exact_float(self, text: str) -> float:
        """One cell as a float, correctly rounded; infinite where the text is not finite, `RowRejected` if no number."""
        text = text.strip(BLANKS)
        if self._float_regex.match(text):
            return float(self._plain(text)) + 0.0
        if _NONFINITE.fullmatch(text):
            return math.nan
        raise RowRejected(RejectReason.BAD_NUMBER)

    def exact_int(self, text: str) -> int:
        """One cell as an int64."""
        text = text.strip(BLANKS)
        if not self._int_regex.match(text):
            raise RowRejected(RejectReason.BAD_NUMBER)
        digits = self._plain(text)
        # Python refuses to convert thousands of digits; none of those would fit anyway.
        significant = digits.lstrip("+-").lstrip("0")
        if len(significant) > 19 or (value := int(digits)) not in _INT64:
            raise RowRejected(RejectReason.INTEGER_OVERFLOW)
        return value

    def column_of_floats(self, text: pa.Array) -> pa.Array:
        """A column as float64; null where it was null or is no number."""
        return pc.cast(self._numeric(text, self.float_pattern), pa.float64())

    def column_of_ints(self, text: pa.Array) -> pa.Array:
        """A column as int64; null where it was null, is no whole number, or might not fit."""
        digits = pc.ascii_ltrim(self._numeric(text, self.int_pattern), "+")
        fits = pc.less_equal(pc.binary_length(digits), _SAFE_INT_BYTES)
        return pc.cast(pc.if_else(fits, digits, pa.scalar(None, pa.string())), pa.int64())

    def _numeric(self, text: pa.Array, pattern: str) -> pa.Array:
        trimmed = pc.ascii_trim(text, BLANKS)
        fits = pc.match_substring_regex(trimmed, pattern)
        numeric = pc.if_else(fits, trimmed, pa.scalar(None, pa.string()))
        if self.thousands:
            numeric = pc.replace_substring(numeric, self.thousands, "")
        return pc.replace_substring(numeric, self.decimal, ".") if self.decimal != "." else numeric

    def _plain(self, text: str) -> str:
        if self.thousands:
            text = text.replace(self.thousands, "")
        return text.replace(self.decimal, ".") if self.decimal != "." else text
