"""For programs that report events: a producer that keeps them on disk until a server of disarray has taken them.

Standard library alone: it must load on a lab PC that has neither Spark nor numpy nor a database driver.
"""

from disarray.events.producer import Producer, ProducerCounts
from disarray.events.spool import RejectedEvent

__all__ = ["Producer", "ProducerCounts", "RejectedEvent"]
