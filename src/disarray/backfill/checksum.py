"""The checksum of rows: the same number whether PostgreSQL or Python computes it, in whatever order rows come.

A value becomes a text by the rule of its type (`value_text`). A row is its values in order, each as `length:text` with
the length in characters, NULL as `-`. Its hash is the MD5 of that text in UTF-8, a number of 128 bits. The checksum of
a set of rows is the sum of their hashes modulo 2^128, written as 32 hex digits. MD5 finds accidents, not forgers.
"""

from __future__ import annotations

import hashlib
import math
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any, assert_never

if TYPE_CHECKING:
    from collections.abc import Iterable

MODULUS = 1 << 128
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ValueRule(StrEnum):
    """How a value of a column becomes a text."""

    PLAIN = "plain"  # bool, integers, text, uuid, date: as PostgreSQL casts them to text
    BITS = "bits"  # float4 and float8: the 8 bytes of the float8, in hex; of NaN there is one
    DECIMAL = "decimal"  # numeric: without trailing zeros
    INSTANT = "instant"  # timestamp and timestamptz: microseconds since 1970
    BYTES = "bytes"  # bytea: in hex
    OPAQUE = "opaque"  # any other type: as PostgreSQL casts it to text; Python does not try


RULES = {
    **dict.fromkeys(("bool", "int2", "int4", "int8", "text", "varchar", "uuid", "date"), ValueRule.PLAIN),
    **dict.fromkeys(("float4", "float8"), ValueRule.BITS),
    "numeric": ValueRule.DECIMAL,
    **dict.fromkeys(("timestamp", "timestamptz"), ValueRule.INSTANT),
    "bytea": ValueRule.BYTES,
}


def rule_of(type_name: str) -> ValueRule:
    """The rule for a type of PostgreSQL, by its name in `pg_type`."""
    return RULES.get(type_name, ValueRule.OPAQUE)


def value_text(value: Any, rule: ValueRule) -> str | None:
    """A value as the text that is hashed; None for NULL."""
    if value is None:
        return None
    match rule:
        case ValueRule.PLAIN:
            if isinstance(value, bool):
                return "true" if value else "false"
            return value.isoformat() if isinstance(value, date) else str(value)
        case ValueRule.BITS:
            # Processors make others, with a sign; a driver that writes `NaN` makes this one of all of them.
            return struct.pack(">d", math.nan if math.isnan(value) else value).hex()
        case ValueRule.DECIMAL:
            number = Decimal(value)
            if not number.is_finite():
                return str(number)
            shown = format(number, "f")
            shown = shown.rstrip("0").rstrip(".") if "." in shown else shown
            return "0" if shown in ("-0", "") else shown
        case ValueRule.INSTANT:
            instant = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            return str((instant - _EPOCH) // timedelta(microseconds=1))
        case ValueRule.BYTES:
            return bytes(value).hex()
        case ValueRule.OPAQUE:
            raise TypeError("only the database knows this type as text")
        case _:
            assert_never(rule)


def row_hash(texts: Iterable[str | None]) -> int:
    """The hash of a row, from the texts of its values."""
    written = "".join("-" if text is None else f"{len(text)}:{text}" for text in texts)
    return int.from_bytes(hashlib.md5(written.encode(), usedforsecurity=False).digest())


def checksum_of_halves(high: int | Decimal | None, low: int | Decimal | None, negative_lows: int) -> str:
    """The checksum from sums of the two halves of the hashes as signed 64-bit numbers: what SQL gives.

    A half of 2^63 or more counts 2^64 too little there. Of high halves that is 0 modulo 2^128; of low halves it is put
    back by how many there were.
    """
    return shown_checksum((int(high or 0) << 64) + int(low or 0) + (negative_lows << 64))


def add_checksums(checksums: Iterable[str]) -> str:
    """The checksum of all the rows behind some checksums."""
    return shown_checksum(sum(int(each, 16) for each in checksums))


def shown_checksum(total: int) -> str:
    """A sum of hashes as 32 hex digits."""
    return f"{total % MODULUS:032x}"
