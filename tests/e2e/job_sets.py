"""JobSets, and the controller that makes their Jobs: a played one, or the real one where it is found.

The played controller does to Jobs what that of jobset.sigs.k8s.io does (v0.5 to v0.12, jobset_controller.go). Jobs are
created suspended if their JobSet is. Each look at a JobSet that isn't suspended resumes all its suspended Jobs, by a
write of the whole Job in which the tolerations of both templates come in any order (MergeSlices). A failed Job restarts
the JobSet: its Jobs are deleted, and created with the next restart attempt. InOrder starts a replicated job once all
pods of the one before are ready. The same tests run with the real controller, where its binary is named:
FLUENCE_JOBSET_CONTROLLER=PATH. It is started with KUBECONFIG and no arguments, and needs no webhooks here: the tests
write what these would fill in.
"""

from __future__ import annotations

import os
import random
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.e2e.harness import Manifest
from tests.e2e.operators import written
from tests.localcluster import Api, ApiError

CONTROLLER = os.environ.get("FLUENCE_JOBSET_CONTROLLER", "")
API = "jobset.x-k8s.io/v1alpha2"
KEY = "jobset.sigs.k8s.io"
ATTEMPT = f"{KEY}/restart-attempt"
EVERY = 0.1
"""Seconds between two looks of the played controller; the real one looks at each change."""


def replicated(name: str, replicas: int, pods: int, template: Manifest, **spec: Any) -> Manifest:
    """A replicated job of a JobSet, as its webhook fills it in; ``spec`` is the Jobs'."""
    template = {**template["spec"], "restartPolicy": "Never"}
    body = {
        "parallelism": pods,
        "completions": pods,
        "completionMode": "Indexed",
        "template": {"metadata": {}, "spec": template},
        **spec,
    }
    return {"name": name, "groupName": "default", "replicas": replicas, "template": {"spec": body}}


def job_set(name: str, *jobs: Manifest, **spec: Any) -> Manifest:
    """A JobSet as its webhook fills it in."""
    filled = {
        "successPolicy": {"operator": "All"},
        "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        "network": {"enableDNSHostnames": False},
        "replicatedJobs": list(jobs),
    }
    return written("JobSet", name, **filled | spec)


@contextmanager
def controlled(api: Api, kubeconfig: Path, log: Path) -> Iterator[None]:
    """While this lasts a controller follows all JobSets."""
    if not CONTROLLER:
        played = _Played(api)
        played.start()
        try:
            yield
        finally:
            played.stop()
        return
    with log.open("wb") as file:
        environment = os.environ | {"KUBECONFIG": str(kubeconfig)}
        process = subprocess.Popen([CONTROLLER], env=environment, stdout=file, stderr=file)
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


class _Played(threading.Thread):
    def __init__(self, api: Api) -> None:
        super().__init__(daemon=True)
        self._api = api
        self._ended = threading.Event()

    def stop(self) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        while not self._ended.wait(EVERY):
            with suppress(ApiError):
                for one in self._api.get(f"/apis/{API}/jobsets")["items"]:
                    # Conflicts and the like: it looks again.
                    with suppress(ApiError):
                        self._follow(one)

    def _follow(self, owner: Manifest) -> None:
        meta, spec = owner["metadata"], owner["spec"]
        status = owner.get("status") or {}
        if "deletionTimestamp" in meta or status.get("conditions"):
            return
        path = f"/apis/batch/v1/namespaces/{meta['namespace']}/jobs"
        listed = self._api.get(path)["items"]
        jobs = [one for one in listed if meta["uid"] in _owners(one)]
        restarts = int(status.get("restarts", 0))
        for one in jobs:
            if (
                int(one["metadata"]["labels"][ATTEMPT]) < restarts
                and "deletionTimestamp" not in one["metadata"]
            ):
                self._api.delete(_path(one), propagationPolicy="Foreground")
        current = {one["metadata"]["name"]: one for one in jobs if _attempt(one) == restarts}
        if any(_ended(one, "Failed") for one in current.values()):
            limit = (spec.get("failurePolicy") or {}).get("maxRestarts", 0)
            self._report(owner, {"restarts": restarts + 1} if restarts < limit else _condition("Failed"))
            return
        taken = {one["metadata"]["name"] for one in jobs}
        suspended = bool(spec.get("suspend"))
        in_order = spec["startupPolicy"]["startupPolicyOrder"] == "InOrder" and not suspended
        for kind in spec["replicatedJobs"]:
            names = [f"{meta['name']}-{kind['name']}-{number}" for number in range(kind["replicas"])]
            for number, name in enumerate(names):
                if name not in taken:
                    self._api.request("POST", path, _job(owner, kind, number, restarts))
            for name in names:
                if name in current:
                    self._set_suspended(current[name], suspended, kind)
            if in_order and not all(name in current and _ready(current[name]) for name in names):
                return
        if current and all(_ended(one, "Complete") for one in current.values()):
            self._report(owner, _condition("Completed"))

    def _set_suspended(self, one: Manifest, suspended: bool, kind: Manifest) -> None:
        if bool(one["spec"].get("suspend")) is suspended or _ended(one, "Complete"):
            return
        if not suspended:
            if one.get("status", {}).get("startTime"):
                one["status"]["startTime"] = None
                one = self._api.request("PUT", f"{_path(one)}/status", one)
            mine, its = one["spec"]["template"], kind["template"]["spec"]["template"]
            for key in ("labels", "annotations"):
                merged = (mine["metadata"].get(key) or {}) | (its["metadata"].get(key) or {})
                mine["metadata"][key] = merged
            both = [*(mine["spec"].get("tolerations") or ()), *(its["spec"].get("tolerations") or ())]
            together = [one for number, one in enumerate(both) if one not in both[:number]]
            random.shuffle(together)
            mine["spec"]["tolerations"] = together
        one["spec"]["suspend"] = suspended
        self._api.request("PUT", _path(one), one)

    def _report(self, owner: Manifest, status: Manifest) -> None:
        meta = owner["metadata"]
        path = f"/apis/{API}/namespaces/{meta['namespace']}/jobsets/{meta['name']}/status"
        self._api.request("PUT", path, owner | {"status": (owner.get("status") or {}) | status})


def _job(owner: Manifest, kind: Manifest, number: int, restarts: int) -> Manifest:
    meta = owner["metadata"]
    keys = {
        f"{KEY}/jobset-name": meta["name"],
        f"{KEY}/jobset-uid": meta["uid"],
        f"{KEY}/replicatedjob-name": kind["name"],
        f"{KEY}/replicatedjob-replicas": str(kind["replicas"]),
        f"{KEY}/job-index": str(number),
        ATTEMPT: str(restarts),
    }
    spec = kind["template"]["spec"]
    template = spec["template"]
    by = {"apiVersion": API, "kind": "JobSet", "name": meta["name"], "uid": meta["uid"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{meta['name']}-{kind['name']}-{number}",
            "labels": keys | (kind["template"].get("metadata") or {}).get("labels", {}),
            "annotations": keys,
            "ownerReferences": [by | {"controller": True, "blockOwnerDeletion": True}],
        },
        "spec": spec
        | {
            "suspend": bool(owner["spec"].get("suspend")),
            "template": template | {"metadata": {"labels": keys, "annotations": keys}},
        },
    }


def _path(one: Manifest) -> str:
    meta = one["metadata"]
    return f"/apis/batch/v1/namespaces/{meta['namespace']}/jobs/{meta['name']}"


def _owners(one: Manifest) -> set[str]:
    return {owner["uid"] for owner in one["metadata"].get("ownerReferences") or ()}


def _attempt(one: Manifest) -> int:
    return int(one["metadata"]["labels"][ATTEMPT])


def _condition(kind: str) -> Manifest:
    return {"conditions": [{"type": kind, "status": "True"}]}


def _ended(one: Manifest, how: str) -> bool:
    conditions = (one.get("status") or {}).get("conditions") or ()
    return any(found["type"] == how and found["status"] == "True" for found in conditions)


def _ready(one: Manifest) -> bool:
    status = one.get("status") or {}
    return int(status.get("ready", 0)) + int(status.get("succeeded", 0)) >= int(one["spec"]["parallelism"])
