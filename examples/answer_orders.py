"""A job for any Spark: what comes into a queue goes into Parquet, and each message is answered in another queue, each
exactly once. Run it again for what came since.

    spark-submit examples/answer_orders.py ADDRESS LAKE ORDERS ANSWERS

With `--master spark://...` the same file runs on a cluster, and with `--remote sc://...` over Spark Connect.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


def run(spark: SparkSession, address: str, lake: str, orders: str, answers: str) -> tuple[int, int]:
    """How many rows are in the lake, and how many answers are in their queue."""
    name = answers.rpartition("\\")[2]  # of the subscription and the writer, which the queue manager keeps
    stream = spark.readStream.format("msmq").options(address=address, queue=orders, subscription=f"answer-{name}")
    query = stream.load().writeStream.format("parquet").option("path", f"{lake}/orders").option(
        "checkpointLocation", f"{lake}/checkpoint").trigger(availableNow=True).start()  # fmt: skip
    query.awaitTermination()

    rows = spark.read.parquet(f"{lake}/orders")
    arrivals = spark.readStream.schema(rows.schema).parquet(f"{lake}/orders")
    query = answered(arrivals).writeStream.format("msmq").options(
        address=address, queue=answers, writerId=f"answer-{name}", checkpointLocation=f"{lake}/answered"
    ).trigger(availableNow=True).start()  # fmt: skip
    query.awaitTermination()

    there = spark.read.format("msmq").options(address=address, queue=answers, columns="label").load()
    return rows.count(), there.count()


def answered(orders: DataFrame) -> DataFrame:
    return orders.select(
        f.concat(f.lit(b"received: "), "body").alias("body"),
        f.concat(f.lit("re: "), "label").alias("label"), "priority")  # fmt: skip


def main() -> None:
    _, address, lake, orders, answers = sys.argv
    spark = SparkSession.builder.appName("answer orders").getOrCreate()
    in_lake, in_queue = run(spark, address, lake, orders, answers)
    print(f"{in_lake} orders, {in_queue} answers")
    spark.stop()


if __name__ == "__main__":
    main()
