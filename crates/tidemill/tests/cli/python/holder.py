"""Holds units of the pool `etl` until it is ended.

    python holder.py sync|waits|survives

`waits` waits in the queue instead. `survives` releases even if it is killed. Prints `ready` when somebody may end it.
"""

import sys
import time

from tidemill import Client, Holder

how = sys.argv[1]
with Client() as client:
    holder = Holder("holder", how)

    def ready(*_):
        print("ready", flush=True)

    with client.acquire("etl", 4, min_units=4, holder=holder, on_wait=ready, survives_kill=how == "survives"):
        ready()
        time.sleep(600)
