"""What a node's and the rig's processes see of the machine's files: what they write stays in their own namespaces."""

from __future__ import annotations

from pathlib import Path

from tests.nodes.network import run

RIG = Path("/run/rig")
"""Where the rig's folder is seen inside, wherever on the machine it is."""

CPUS = 20
"""Of each node. Containers share the machine's, so this is a promise without cover; nothing in the tests computes."""

CPU_FOLDER = Path("/sys/devices/system/cpu")
NUMA_FOLDER = Path("/sys/devices/system/node")

SYSCTLS = {
    "kernel/keys/root_maxbytes": "25000000",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
}
"""What kubelet sets, for the whole machine and not for its namespaces (k8s.io/component-helpers/node/util/sysctl)."""


def bind(source: Path, target: Path) -> None:
    """Let ``target`` show ``source``, both folders or both files."""
    run("mount", "--bind", str(source), str(target))


def set_up_rig(folder: Path) -> None:
    """Give this mount namespace a /run of its own, with the rig's folder in it."""
    held = folder / "mount"
    held.mkdir()
    run("mount", "-t", "tmpfs", "run", str(held))
    Path(held, RIG.name).mkdir()
    bind(folder, held / RIG.name)
    run("mount", "--no-mtab", "--move", str(held), "/run")


def set_up_node(folder: Path) -> None:
    """Give this mount namespace what a node may write to: all but its own folder in ``folder`` is in memory."""
    # Pods may mount folders of the node so that later mounts are seen in them.
    run("mount", "--make-rshared", "/")
    memory = folder / "memory"
    memory.mkdir(exist_ok=True)
    run("mount", "-t", "tmpfs", "memory", str(memory))
    for path in ("var", "etc"):
        upper, work = memory / path, memory / f"{path}-work"
        upper.mkdir()
        work.mkdir()
        run(
            "mount",
            "-t",
            "overlay",
            path,
            "-o",
            f"lowerdir=/{path},upperdir={upper},workdir={work}",
            f"/{path}",
        )
    for path in ("containerd", "netns"):
        Path("/run", path).mkdir(exist_ok=True)
        run("mount", "-t", "tmpfs", path, f"/run/{path}")
    run("mount", "--make-rshared", "/run/netns")
    _stand_in_for_sysctls(memory)
    _stand_in_for_processors(memory)


def _stand_in_for_sysctls(memory: Path) -> None:
    for name, value in SYSCTLS.items():
        file = memory / name.replace("/", "-")
        file.write_text(f"{value}\n")
        bind(file, Path("/proc/sys", name))


def _stand_in_for_processors(memory: Path) -> None:
    """Let kubelet count `CPUS` processors; programs that ask the kernel see how many there are."""
    processors = memory / "cpu"
    for number in range(CPUS):
        topology = processors / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        (topology / "core_id").write_text(f"{number}\n")
        (topology / "physical_package_id").write_text("0\n")
        (processors / f"cpu{number}" / "online").write_text("1\n")
    (processors / "online").write_text(f"0-{CPUS - 1}\n")
    none = memory / "node"
    none.mkdir()
    bind(processors, CPU_FOLDER)
    bind(none, NUMA_FOLDER)
