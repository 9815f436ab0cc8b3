"""Makes a topic, or reads one to its end and prints the event and the key of each record, partition by partition."""

import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

servers, verb, topic, *rest = sys.argv[1:]
if verb == "make":
    # Keep a reference to the client. Otherwise it is deleted before the answer arrives.
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, int(rest[0]), 1)])[topic].result(30)
    sys.exit()
consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False})
deadline = time.monotonic() + 120
for partition in sorted(consumer.list_topics(topic, timeout=30).topics[topic].partitions):
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
    if low == high:
        continue
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    reached = low
    while reached < high:
        if time.monotonic() > deadline:
            sys.exit(f"partition {partition} does not come to its end")
        for message in consumer.consume(10_000, timeout=0.2):
            if message.error():
                sys.exit(str(message.error()))
            event = dict(message.headers())["tidemill-event-id"].decode()
            print(event, message.key().decode())
            reached = message.offset() + 1
consumer.close()
