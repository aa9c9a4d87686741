"""Every virtual vertex is a device with its place, and requirements select among them."""

import pytest

from fluence_extender.graph.catalogue import DeviceCatalogue, device_catalogue, eligible, why_none
from tests.unit.graph.clusters import QUANTUM, cluster, node


@pytest.fixture
def catalogue() -> DeviceCatalogue:
    return device_catalogue(cluster([node("a")], QUANTUM))


def test_every_virtual_vertex_is_a_device_with_its_place(catalogue: DeviceCatalogue) -> None:
    pool = next(device for device in catalogue.devices if device.path == "/cluster/ibm_fez/qpu1/qubit0")
    assert (pool.type, pool.leaf, pool.count, pool.depth) == ("qubit", True, 156, 2)
    assert (pool.backend, pool.node, pool.attributes["vendor"]) == ("ibm_fez", "", "ibm")
    above = [device.rank for device in catalogue.devices if device.name in ("ibm_fez", "qpu1")]
    assert pool.ancestors == tuple(above)
    assert len(catalogue.devices) == 9


def test_a_device_on_a_node_names_it_and_has_its_rank_above() -> None:
    graph = cluster(
        [node("a"), node("b")], "resources: [{type: qpu, name: q, parent: b, with: [{type: qubit}]}]"
    )
    qpu, pool = device_catalogue(graph).devices
    assert (qpu.node, qpu.depth, qpu.ancestors) == ("b", 1, (1,))
    assert (pool.node, pool.depth, pool.ancestors) == ("b", 2, (1, 2))


def test_requirements_select_by_attribute_and_by_backend(catalogue: DeviceCatalogue) -> None:
    def paths(kind: str, **requires: str) -> list[str]:
        return [device.path for device in eligible(catalogue, kind, requires)]

    assert paths("qdevice") == ["/cluster/ibm_fez", "/cluster/rigetti_ankaa"]
    assert paths("qdevice", vendor="rigetti") == ["/cluster/rigetti_ankaa"]
    assert paths("qpu", backend="ibm_fez") == ["/cluster/ibm_fez/qpu0", "/cluster/ibm_fez/qpu1"]
    assert paths("qpu", backend="ibm_fez", vendor="rigetti") == []
    assert paths("qpu", colour="red") == []


@pytest.mark.parametrize(
    ("kind", "requires", "reason"),
    [
        ("qpu", {}, None),
        ("qpu", {"vendor": "ibm"}, None),
        (
            "qpuu",
            {},
            "no resource of type qpuu is configured; known types: qdevice, qpu, qubit, simulator",
        ),
        ("qpu", {"vendor": "acme"}, "require-vendor=acme matches none of 2 backends (vendor: ibm, rigetti)"),
        ("qpu", {"region": "eu"}, "require-region=eu matches none of 2 backends (region: us)"),
        ("simulator", {"tier": "1"}, "require-tier=1 matches none of 1 backend (tier: not set)"),
        (
            "qpu",
            {"vendor": "ibm", "backend": "rigetti_ankaa"},
            "require-vendor=ibm matches none of 1 backend with require-backend=rigetti_ankaa (vendor: rigetti)",
        ),
        (
            "qpu",
            {"backend": "x"},
            "require-backend=x matches none of 2 backends (backend: ibm_fez, rigetti_ankaa)",
        ),
    ],
)
def test_the_requirement_that_leaves_none_is_named(
    catalogue: DeviceCatalogue, kind: str, requires: dict[str, str], reason: str | None
) -> None:
    assert why_none(catalogue, kind, requires) == reason
    assert bool(eligible(catalogue, kind, requires)) == (reason is None)


def test_without_any_device_the_reason_says_so() -> None:
    assert why_none(DeviceCatalogue(), "qpu", {}) == "no resource of type qpu is configured; none are"


def test_a_long_list_of_values_is_cut_short() -> None:
    lines = "".join(f"- {{type: qpu, attributes: {{vendor: v{index:02}}}}}\n" for index in range(30))
    reason = why_none(device_catalogue(cluster([], f"resources:\n{lines}")), "qpu", {"vendor": "x"})
    assert reason is not None
    assert reason.endswith("30 backends (vendor: v00, v01, v02, v03, v04, v05, v06, v07, v08, v09, ...)")
