"""What one would write with Spark alone: CSV to Parquet, and the same numbers by window functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as f

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

# The default of one gigabyte would have Spark spill where it need not.
SPARK_MEMORY = {"spark.driver.memory": "6g"}
SCHEMA = "time timestamp, volts double, amps double, temperature double, step bigint"
CODEC = "lz4_raw"


def plain_parquet(session: SparkSession, paths: Sequence[Path], target: Path) -> None:
    """Text to Parquet, nothing else."""
    _read(session, paths).write.parquet(str(target), compression=CODEC)


def window_pipeline(session: SparkSession, paths: Sequence[Path], target: Path) -> None:
    """Running values of three metrics by reading, and two rollups."""
    readings = _read(session, paths).withColumn(
        "subject", f.element_at(f.split(f.input_file_name(), "/"), -2)
    )
    running(readings.dropDuplicates(["subject", "time"]), by=["subject"], at="time").write.parquet(
        str(target / "readings"), compression=CODEC
    )
    quarters = readings.groupBy("subject", f.window("time", "15 minutes")).agg(f.count("*"), f.avg("volts"))
    hours = readings.groupBy("subject", f.window("time", "1 hour")).agg(f.max("volts"), f.sum("amps"))
    for name, rolled_up in (("quarter", quarters), ("hourly", hours)):
        named = rolled_up.toDF("subject", "bucket", "first", "second")
        named.write.parquet(str(target / name), compression=CODEC)


def running(readings: DataFrame, *, by: Sequence[str], at: str) -> DataFrame:
    """The three metrics of the benchmarks beside each reading."""
    in_time = Window.partitionBy(*by).orderBy(at)
    so_far = in_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    seconds = f.col(at).cast("double") - f.lag(f.col(at).cast("double")).over(in_time)
    watts = f.col("amps") * f.col("volts")
    energy = f.when(seconds <= 60, (f.lag(watts).over(in_time) + watts) * 0.5 * seconds).otherwise(0.0)
    in_spec = f.when((f.col("volts") > 3.2) & (f.col("temperature") < 31.0), 1).otherwise(0)
    return (
        readings.withColumn("energy_step", energy)
        .withColumn("charge", f.sum(f.col("amps") / 3600.0).over(so_far))
        .withColumn("in_spec", f.sum(in_spec).over(so_far))
        .withColumn("energy", f.sum("energy_step").over(so_far))
        .drop("energy_step")
    )


def _read(session: SparkSession, paths: Sequence[Path]) -> DataFrame:
    return session.read.csv([str(path) for path in paths], schema=SCHEMA, header=True)
