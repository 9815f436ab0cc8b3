"""Validates the description of the API at URL/openapi.json, generates a client from it and calls the server with that.

Usage: generated_client.py URL FOLDER. Prints one JSON object: what came of each call, by its name.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

from openapi_spec_validator import OpenAPIV31SpecValidator

url, folder = sys.argv[1], Path(sys.argv[2])


def faults(description):
    """What the validator finds wrong, one line each."""
    return [error.message for error in OpenAPIV31SpecValidator(description).iter_errors()]


with urlopen(f"{url}/openapi.json") as answer:
    description = json.load(answer)

# The same description with a planted fault: the validator has to find it.
broken = json.loads(json.dumps(description))
del broken["paths"]["/api/v1/pools"]["get"]["responses"]["200"]["description"]

file = folder / "openapi.json"
file.write_text(json.dumps(description))
generate = ["-m", "openapi_python_client", "generate", "--path", file, "--output-path", folder / "client"]
# The generator formats what it wrote with the ruff of this environment.
path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
generated = subprocess.run(
    [sys.executable, *generate, "--meta", "none"],
    capture_output=True,
    text=True,
    check=True,
    env=os.environ | {"PATH": path},
)
sys.path.insert(0, str(folder))

from client import Client  # noqa: E402
from client.api.pool import create_pool, list_pools, request_units  # noqa: E402
from client.models import CreatePool, PoolHolder, Problem, RequestPool, RequestUnits  # noqa: E402

with Client(base_url=url) as client:
    created = create_pool.sync_detailed(client=client, body=CreatePool(name="etl", max_units=8))
    holder = PoolHolder(dag_id="load", run_id="2026-11-17")
    asked = RequestUnits(pools=[RequestPool(pool="etl", parallel=4)], holder=holder)
    granted = request_units.sync_detailed(client=client, body=asked)
    asked.pools[0].pool = "nowhere"
    refused = request_units.sync_detailed(client=client, body=asked)
    listed = list_pools.sync_detailed(client=client)

print(
    json.dumps(
        {
            "faults": faults(description),
            "planted_faults": len(faults(broken)),
            "warnings": generated.stdout.count("Warning"),
            "created": [created.status_code, created.parsed.name],
            "granted": [granted.status_code, granted.parsed.leases[0].units],
            "refused": [refused.status_code, isinstance(refused.parsed, Problem)],
            "listed": [[pool.name, pool.in_use] for pool in listed.parsed.items],
        }
    )
)
