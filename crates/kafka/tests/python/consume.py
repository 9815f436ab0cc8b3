"""Reads a topic from its beginning to where it ends now, with a client that is not ours: one JSON object per line."""

import base64
import json
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

servers, topic, *options = sys.argv[1:]
settings = {"bootstrap.servers": servers, "group.id": "tests", "enable.auto.commit": False}
# Marks of transactions have offsets and are no messages, so the last offset may never come.
settings["enable.partition.eof"] = True
settings.update(option.split("=", 1) for option in options)
consumer = Consumer(settings)
partitions = sorted(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
ends = {}
for partition in partitions:
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
    if high > low:
        ends[partition] = high
consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in ends])
deadline = time.monotonic() + 60
while ends:
    if time.monotonic() > deadline:
        sys.exit(f"these partitions have not come to their ends: {ends}")
    # It waits until it has that many, or for so long.
    for message in consumer.consume(1000, timeout=0.1):
        if message.error() and message.error().code() == KafkaError._PARTITION_EOF:
            ends.pop(message.partition(), None)
            continue
        if message.error():
            sys.exit(str(message.error()))
        value = message.value()
        headers = [[name, text.decode()] for name, text in message.headers() or []]
        print(
            json.dumps(
                {
                    "partition": message.partition(),
                    "offset": message.offset(),
                    "key": message.key().decode(),
                    "value": None if value is None else base64.b64encode(value).decode(),
                    "headers": headers,
                }
            )
        )
        if message.offset() + 1 >= ends.get(message.partition(), 0):
            ends.pop(message.partition(), None)
consumer.close()
