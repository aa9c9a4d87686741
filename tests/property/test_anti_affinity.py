"""The index of anti-affinity says of every pod and node what a comparison of all pods says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from fluence_extender.model.node import Node
from fluence_extender.model.pod import Pod, PodTerm, Requirement
from fluence_extender.model.selectors import holds
from fluence_extender.room.kept_apart import KeptApart

NAMES = [f"n{number}" for number in range(5)]
NAMESPACES, KEYS, VALUES = ("red", "blue", "grey"), ("app", "tier"), ("a", "b")
LEVELS = ("host", "zone", "rack")

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
rules = st.one_of(
    st.builds(
        Requirement,
        st.sampled_from(KEYS),
        st.sampled_from(("In", "NotIn")),
        st.lists(st.sampled_from(VALUES), max_size=12).map(tuple),
    ),
    st.builds(Requirement, st.sampled_from(KEYS), st.sampled_from(("Exists", "DoesNotExist"))),
)
selectors = st.lists(rules, max_size=2).map(tuple)
terms = st.builds(
    PodTerm,
    st.sampled_from(LEVELS),
    selectors,
    st.lists(st.sampled_from(NAMESPACES), max_size=2).map(tuple),
    st.none() | selectors,
)
uids = st.sampled_from([f"u{number}" for number in range(6)])
node_labels = st.dictionaries(st.sampled_from(LEVELS), st.sampled_from(("x", "y")))


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    """A pod with terms."""
    uid = draw(uids)
    apart = draw(st.lists(terms, max_size=3).map(tuple))
    return Pod(draw(st.sampled_from(NAMESPACES)), uid, uid, labels=draw(labels), apart=apart)


steps = st.one_of(
    st.tuples(st.just("put"), pods(), st.sampled_from([*NAMES, "gone"]), st.booleans()),
    st.tuples(st.just("drop"), uids),
    st.tuples(st.just("bind"), uids),
    st.tuples(st.just("rename"), uids, uids),
    st.tuples(st.just("node"), st.sampled_from(NAMES), node_labels),
    st.tuples(st.just("no node"), st.sampled_from(NAMES)),
    st.tuples(st.just("namespace"), st.sampled_from(NAMESPACES), labels),
)


@dataclass
class World:
    """All pods, nodes and namespaces; everything is compared with everything."""

    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, tuple[Pod, str, bool]] = field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)

    def do(self, kept: KeptApart, what: str, *given: object) -> None:
        """Do one step here and in the index."""
        match what, *given:
            case "put", Pod() as pod, str(node), bool(bound):
                self.pods[pod.uid] = pod, node, bound
                kept.put(pod, node, bound)
            case "drop", str(uid):
                self.pods.pop(uid, None)
                kept.drop(uid)
            case "bind", str(uid):
                if uid in self.pods:
                    self.pods[uid] = *self.pods[uid][:2], True
                kept.has_bound(uid)
            case "rename", str(uid), str(new):
                if uid in self.pods and new not in self.pods:
                    pod, node, bound = self.pods.pop(uid)
                    self.pods[new] = replace(pod, uid=new, name=new), node, bound
                    kept.drop(uid)
                    kept.put(*self.pods[new])
            case "node", str(name), dict(found):
                self.nodes[name] = Node(name, labels=found)
                kept.nodes_changed()
            case "no node", str(name):
                self.nodes.pop(name, None)
                kept.nodes_changed()
            case "namespace", str(name), dict(found):
                self.namespaces[name] = found
                kept.put_namespace(name, found)

    def avoided(self, new: Pod, bound: bool = False) -> set[str]:
        """The nodes that the new pod must avoid; with ``bound`` only because of pods that have their node."""
        return {
            name
            for pod, where, is_bound in self.pods.values()
            for term in pod.apart
            for name, node in self.nodes.items()
            if (is_bound or not bound)
            and self._selects(term, new)
            and where in self.nodes
            and term.key in node.labels
            and node.labels[term.key] == self.nodes[where].labels.get(term.key)
        }

    def _selects(self, term: PodTerm, new: Pod) -> bool:
        among = self.namespaces.get(new.namespace, {})
        return all(holds(rule, new.labels) for rule in term.selector) and (
            new.namespace in term.namespaces
            or (term.among is not None and all(holds(rule, among) for rule in term.among))
        )


@settings(max_examples=400)
@given(st.lists(steps, max_size=25), st.lists(st.tuples(st.sampled_from(NAMESPACES), labels), min_size=1))
def test_index_says_what_a_comparison_of_all_pods_says(
    done: list[tuple[object, ...]], asked: list[tuple[str, dict[str, str]]]
) -> None:
    world = World()
    kept = KeptApart(world.nodes)
    for what, *given_ in done:
        world.do(kept, str(what), *given_)
        for namespace, found in asked:
            new = Pod(namespace, "new", "new", labels=found)
            assert kept.nodes(new) == world.avoided(new)
            assert {name for name in NAMES if kept.keeper(new, name)} == world.avoided(new, bound=True)
            assert kept.copy().nodes(new) == world.avoided(new)
