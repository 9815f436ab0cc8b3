"""A small Spark application: keeps the large amounts of a CSV file, and says what it was told."""

import json
import os
import sys
import time

from pyspark.sql import SparkSession

mode, source, target = sys.argv[1:4]
if mode == "fail":
    raise ValueError("planted: the region is not known")

spark = SparkSession.builder.getOrCreate()
conf = spark.sparkContext.getConf()
with open(target + ".told.json", "w") as told:
    names = ["TIDEMILL_PARALLELISM", "TIDEMILL_HINT", "TIDEMILL_STEP"]
    json.dump(
        {
            "master": spark.sparkContext.master,
            "parallelism": conf.get("spark.tidemill.parallelism"),
            "hint": conf.get("spark.tidemill.hint"),
            "zone": spark.conf.get("spark.sql.session.timeZone"),
            "environment": {name: os.environ.get(name) for name in names},
            "pid": os.getpid(),
            "jvm": spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid(),
        },
        told,
    )
    told.write("\n")
if mode == "wait":
    time.sleep(600)

rows = spark.read.csv(source, header=True, schema="region string, amount int")
rows.filter("amount > 3").coalesce(1).write.csv(target, header=True)
spark.stop()
