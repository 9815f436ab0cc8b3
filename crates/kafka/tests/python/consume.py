"""Reads a topic from its beginning to where it ends now, with a client that is not ours: one JSON object per line."""

import base64
import json
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

servers, topic, *options = sys.argv[1:]
# The end of a partition is told: its last offset may be the mark of a transaction, which nobody gets to see.
settings = {"bootstrap.servers": servers, "group.id": "tests", "enable.auto.commit": False, "enable.partition.eof": True}
settings.update(option.split("=", 1) for option in options)
consumer = Consumer(settings)
left = set(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in sorted(left)])
begun = heard = time.monotonic()
while left:
    # It waits until it has that many, or for so long.
    messages = consumer.consume(1000, timeout=0.1)
    if messages:
        heard = time.monotonic()
    if time.monotonic() - heard > 60 or time.monotonic() - begun > 900:
        sys.exit(f"these partitions have not come to their ends: {left}")
    for message in messages:
        if message.error():
            if message.error().code() != KafkaError._PARTITION_EOF:
                sys.exit(str(message.error()))
            left.discard(message.partition())
            continue
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
consumer.close()
