"""Airflow provider of Tidemill: units of pools without worker slots, and jobs."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"


def get_provider_info() -> dict[str, Any]:
    """What Airflow needs to know of this package."""
    integration = "Tidemill"
    modules = {kind: [f"{__name__}.{kind}"] for kind in ("operators", "sensors", "hooks", "triggers")}
    return {
        "package-name": "airflow-provider-tidemill",
        "name": integration,
        "description": "Units of pools without worker slots, and jobs.",
        "versions": [__version__],
        "integrations": [{"integration-name": integration, "external-doc-url": "", "tags": ["service"]}],
        **{
            kind: [{"integration-name": integration, "python-modules": names}] for kind, names in modules.items()
        },
        "connection-types": [
            {"connection-type": "tidemill", "hook-class-name": f"{__name__}.hooks.TidemillHook"}
        ],
        "extra-links": [f"{__name__}.links.TidemillExecutionLink"],
        "task-decorators": [{"name": "tidemill", "class-name": f"{__name__}.decorators.tidemill_task"}],
    }
