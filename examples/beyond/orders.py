"""The Spark application of spark.yaml: `clean` works row by row, `totals` joins and groups.

It uses no API of Tidemill, so it runs on EMR unchanged: the folder may be s3://BUCKET/PREFIX.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

ORDERS = "id bigint, day string, customer bigint, quantity int, price decimal(12, 2), status string"
CLEAN = "id bigint, day string, customer bigint, cents bigint"
CUSTOMERS = "customer bigint, region string"


def read(spark, path, schema):
    """A line that does not fit fails the application, as it fails the step of partitioned.yaml."""
    return spark.read.csv(path, header=True, schema=schema, mode="FAILFAST")


def clean(spark, folder):
    orders = read(spark, f"{folder}/orders-*.csv", ORDERS).where("status <> 'cancelled'")
    cents = (F.col("price") * 100 * F.col("quantity")).cast("bigint")
    rows = orders.select("id", "day", "customer", cents.alias("cents"))
    rows.write.csv(f"{folder}/spark/clean", header=True, mode="overwrite")


def totals(spark, folder):
    orders = read(spark, f"{folder}/spark/clean", CLEAN)
    customers = read(spark, f"{folder}/customers-*.csv", CUSTOMERS)
    groups = orders.join(customers, "customer").groupBy("region", "day")
    rows = groups.agg(
        F.count("*").alias("orders"),
        F.count_distinct("customer").alias("customers"),
        F.sum("cents").alias("cents"),
    )
    # The result is small: one file.
    rows.repartition(1).write.csv(f"{folder}/spark/totals", header=True, mode="overwrite")


if __name__ == "__main__":
    work, folder = sys.argv[1:]
    session = SparkSession.builder.getOrCreate()
    {"clean": clean, "totals": totals}[work](session, folder)
    session.stop()
