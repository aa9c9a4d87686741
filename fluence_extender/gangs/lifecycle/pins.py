from fluence_extender.model.names import NODE_NAME
from fluence_extender.model.pod import NodeTerm, Requirement


def pinning(pod, node, spares):
    return (NodeTerm(fields=(Requirement(NODE_NAME, "In", (node,)),)),)


def unpinned(pod):
    return pod
