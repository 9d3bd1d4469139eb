"""Readings in Spark: the winners of every segment in canonical order, by window functions alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from disarray.engine.verification.scratch import CONTENT, GENERATION, SUBJECT, URI, scratch_schema
from disarray.kernels.parsing.readings import readings_schema
from disarray.kernels.scanning.digests import digest_readings
from disarray.model.description.conflict_rule import ConflictRule
from disarray.model.description.format import CHANNEL, EVENT_US, POSITION, ColumnType
from disarray.model.description.read_spec import KeyKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from disarray.control.verification import StoredSubject
    from disarray.engine.verification.sources import Sources
    from disarray.model.description.dataset import Dataset

# The stubs of PySpark do not know that annotations can say what such a function is for.
ARROW_FUNCTION: Any = arrow_udf

SEGMENT = "_segment_us"
ARRIVAL = "_arrival"
ORDINAL = "_ordinal"  # in the canonical order of the segment

SPARK_TYPES: dict[ColumnType, DataType] = {
    ColumnType.FLOAT64: DoubleType(),
    ColumnType.INT64: LongType(),
    ColumnType.STRING: StringType(),
    ColumnType.BOOL: BooleanType(),
    ColumnType.TIMESTAMP: TimestampType(),
}


def source_readings(session: SparkSession, dataset: Dataset, sources: Sources) -> DataFrame:
    """What the sources say; for those that prove nothing, what the lake keeps of them."""
    read = load_readings(session, dataset, sources.source_files)
    if not sources.unproven:
        return read
    kept = load_readings(session, dataset, sources.lake_files)
    pairs = [(each.source_uri, each.generation) for each in sources.unproven]
    unproven = session.createDataFrame(
        pairs, StructType([StructField(URI, StringType()), StructField(GENERATION, LongType())])
    )
    keys = [URI, GENERATION]
    return read.join(F.broadcast(unproven), keys, "left_anti").unionByName(
        kept.join(F.broadcast(unproven), keys, "left_semi")
    )


def load_readings(session: SparkSession, dataset: Dataset, files: Sequence[str]) -> DataFrame:
    """Readings from the scratch folder, each with its segment."""
    spec = dataset.read_spec()
    types = {column.name: SPARK_TYPES[column.type] for column in spec.columns}
    types |= {EVENT_US: LongType(), POSITION: LongType(), GENERATION: LongType()}
    schema = StructType(
        [StructField(name, types.get(name, StringType())) for name in scratch_schema(spec).names]
    )
    readings = session.read.schema(schema).parquet(*files) if files else session.createDataFrame([], schema)
    start = F.col(EVENT_US) - F.pmod(EVENT_US, F.lit(dataset.segment_length_us))
    return readings.withColumn(SEGMENT, start)


def arrivals_of(
    session: SparkSession, dataset: Dataset, subjects: Sequence[StoredSubject]
) -> DataFrame | None:
    """The number of each file in the order of first announcements, where the rule of the dataset goes by it."""
    if dataset.conflict.rule is not ConflictRule.ARRIVAL:
        return None
    rows = [(file.source_uri, file.arrival) for subject in subjects for file in subject.files]
    return session.createDataFrame(
        rows, StructType([StructField(URI, StringType()), StructField(ARRIVAL, LongType())])
    )


def winners(readings: DataFrame, dataset: Dataset, arrivals: DataFrame | None = None) -> DataFrame:
    """One reading for each key, and its place in the canonical order of its segment."""
    columns = [column.name for column in dataset.columns]
    latest = [F.desc(URI), F.desc(GENERATION), F.desc(POSITION)]
    if arrivals is not None:
        readings = readings.join(F.broadcast(arrivals), URI, "left")
        latest = [F.desc(ARRIVAL), *latest]
    if dataset.conflict.column is not None:
        latest = [F.desc_nulls_last(dataset.conflict.column), *latest]
    match dataset.key.kind:
        case KeyKind.NONE:
            # Files with the same bytes are one file under several names.
            same = Window.partitionBy(SUBJECT, CONTENT, POSITION).orderBy(*latest)
            kept = _first_of(readings, same)
        case KeyKind.COLUMNS:
            key = Window.partitionBy(SUBJECT, EVENT_US, CHANNEL, *dataset.key.columns).orderBy(*latest)
            kept = _first_of(readings, key)
        case _:
            in_file = Window.partitionBy(SUBJECT, URI, GENERATION, EVENT_US, CHANNEL, *columns).orderBy(
                POSITION
            )
            counted = readings.withColumn("_occurrence", F.row_number().over(in_file))
            key = Window.partitionBy(SUBJECT, EVENT_US, CHANNEL, *columns, "_occurrence").orderBy(*latest)
            kept = _first_of(counted, key)
    order = [F.asc(EVENT_US), *(F.asc_nulls_first(name) for name in dataset.order_by)]
    canonical = Window.partitionBy(SUBJECT, SEGMENT).orderBy(
        *order, F.asc(URI), F.asc(GENERATION), F.asc(POSITION)
    )
    return kept.withColumn(ORDINAL, F.row_number().over(canonical)).select(
        SUBJECT, SEGMENT, ORDINAL, EVENT_US, CHANNEL, *columns
    )


def with_attributes(
    session: SparkSession, readings: DataFrame, dataset: Dataset, subjects: Sequence[str]
) -> DataFrame:
    """The readings with the constant columns of their subjects."""
    if not dataset.attribute_types:
        return readings
    fields = [StructField(name, SPARK_TYPES[type_]) for name, type_ in dataset.attribute_types.items()]
    rows = [
        (subject, *(_plain(each.value, each.type) for each in dataset.attributes_of(subject)))
        for subject in subjects
    ]
    constants = session.createDataFrame(rows, StructType([StructField(SUBJECT, StringType()), *fields]))
    return readings.join(F.broadcast(constants), SUBJECT)


def segment_digests(readings: DataFrame, dataset: Dataset) -> DataFrame:
    """Readings of each segment, counted, and the digest of what a user can see of them."""
    names = [each.name for each in _seen(dataset)]
    # Spark has no such hash of its own, and does not count beside a function of ours.
    count, digest = ARROW_FUNCTION(_count, "long"), ARROW_FUNCTION(_digest_of(dataset), "string")
    return readings.groupBy(F.col(SUBJECT).alias("subject_key"), F.col(SEGMENT).alias("segment_us")).agg(
        count(ORDINAL).alias("readings"), digest(ORDINAL, F.struct(*names)).alias("digest")
    )


def misplaced_readings(source: DataFrame, lake: DataFrame, dataset: Dataset) -> DataFrame:
    """By file and segment: readings that the source has and the lake has not, and the other way round."""
    floats = {column.name for column in dataset.columns if column.type is ColumnType.FLOAT64}
    names = [SUBJECT, SEGMENT, URI, GENERATION, POSITION, EVENT_US, CHANNEL]
    names += [column.name for column in dataset.columns]

    def weighted(readings: DataFrame, weight: int) -> DataFrame:
        return readings.select(
            *(_exact(name, name in floats) for name in names), F.lit(weight).alias("_weight")
        )

    balance = (
        weighted(source, 1)
        .unionAll(weighted(lake, -1))
        .groupBy(*names)
        .agg(F.sum("_weight").alias("_balance"))
        .where("_balance <> 0")
    )
    return balance.groupBy(SUBJECT, SEGMENT, URI).agg(
        F.sum(F.greatest("_balance", F.lit(0))).alias("only_source"),
        F.sum(F.greatest(-F.col("_balance"), F.lit(0))).alias("only_lake"),
    )


def _first_of(readings: DataFrame, window: Any) -> DataFrame:
    return readings.withColumn("_rank", F.row_number().over(window)).where("_rank = 1").drop("_rank")


def _exact(name: str, is_float: bool) -> Column:
    # Grouping takes -0.0 for 0.0; their texts differ, and those of other floats as well.
    return F.col(name).cast("string").alias(name) if is_float else F.col(name)


def _plain(value: object, type_: ColumnType) -> object:
    return float(value) + 0.0 if type_ is ColumnType.FLOAT64 and isinstance(value, int | float) else value


def _seen(dataset: Dataset) -> pa.Schema:
    """What the digest of a segment is taken over."""
    return pa.schema([each for each in readings_schema(dataset.read_spec()) if each.name != POSITION])


# What a function of Arrow is for, Spark reads from its annotations.
def _count(ordinal: pa.Array) -> int:
    return len(ordinal)


def _digest_of(dataset: Dataset) -> Callable[[pa.Array, pa.Array], str]:
    seen = _seen(dataset)

    def digest(ordinal: pa.Array, reading: pa.Array) -> str:
        ordered = reading.take(pc.sort_indices(ordinal))
        return digest_readings(pa.table(ordered.flatten(), names=seen.names).cast(seen))

    return digest
