"""Write what follows from values.schema.json and the definition of Queue.

    python deploy/helm/reference.py

That is the schema's own part about the Queue, values.yaml, and the table in docs/operations.md, so that a value is
described once.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
SCHEMA, VALUES = HERE / "values.schema.json", HERE / "values.yaml"
QUEUES = HERE / "crds" / "queues.yaml"
PAGE = HERE.parents[1] / "docs" / "operations.md"
HEAD = "| value | default | meaning |\n|---|---|---|\n"
WIDTH = 110

Json = dict[str, Any]


def texts() -> dict[Path, str]:
    """Return each file with what it should contain."""
    schema = json.loads(SCHEMA.read_text())
    properties = schema["properties"]
    properties["queue"] = of_queue() | {key: properties["queue"][key] for key in ("default", "description")}
    before, _, rest = PAGE.read_text().partition(HEAD)
    after = rest[rest.index("\n\n") :]
    table = "\n".join(rows(properties))
    return {
        SCHEMA: json.dumps(schema, indent=2) + "\n",
        VALUES: "\n".join(commented(properties)) + "\n",
        PAGE: before + HEAD + table + after,
    }


def of_queue() -> Json:
    """Return the schema of a Queue's spec, in which unknown fields are errors."""
    queue, *_ = yaml.safe_load_all(QUEUES.read_text())
    found: Json = queue["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return strict(found)


def strict(schema: Json) -> Json:
    """Return a structural schema without the keywords that only the API server knows.

    There, exclusiveMinimum says of the minimum that it is excluded; in JSON Schema it is that number itself.
    """
    kept = {key: value for key, value in schema.items() if not key.startswith("x-kubernetes-")}
    if kept.pop("exclusiveMinimum", False):
        kept["exclusiveMinimum"] = kept.pop("minimum")
    if isinstance(kept.get("additionalProperties"), dict):
        kept["additionalProperties"] = strict(kept["additionalProperties"])
    if "items" in kept:
        kept["items"] = strict(kept["items"])
    if "properties" in kept:
        kept["properties"] = {name: strict(one) for name, one in kept["properties"].items()}
        kept["additionalProperties"] = False
    return kept


def rows(properties: Json, prefix: str = "") -> Iterator[str]:
    """Return the rows of the table."""
    for name, one in properties.items():
        if "default" in one:
            yield f"| `{prefix}{name}` | `{json.dumps(one['default'])}` | {one['description']} |"
        else:
            yield from rows(one.get("properties", {}), f"{prefix}{name}.")


def commented(properties: Json, indent: str = "") -> Iterator[str]:
    """Return the lines of values.yaml."""
    for name, one in properties.items():
        if "default" in one:
            for line in textwrap.wrap(one["description"], WIDTH, break_on_hyphens=False):
                yield f"{indent}# {line}"
            yield f"{indent}{name}: {json.dumps(one['default'])}"
        elif "properties" in one:
            yield f"{indent}{name}:"
            yield from commented(one["properties"], indent + "  ")


if __name__ == "__main__":
    for path, text in texts().items():
        path.write_text(text)
