"""A user who may do in one namespace what the role edit allows, and nothing elsewhere."""

from __future__ import annotations

from tests.e2e.harness import Namespace
from tests.localcluster import Api, ControlPlane

RBAC = "rbac.authorization.k8s.io"


def editor(control_plane: ControlPlane, namespace: Namespace) -> Namespace:
    """Return the namespace as such a user reaches it; rights count a moment after this."""
    name = f"user-of-{namespace.name}"
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"}
    subject = {"apiGroup": RBAC, "kind": "User", "name": name}
    namespace.create(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "user"},
            "roleRef": role,
            "subjects": [subject],
        }
    )
    return Namespace(namespace.name, Api(control_plane.kubeconfig_for(name)))
