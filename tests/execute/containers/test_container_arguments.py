"""The arguments of engines, word for word: the safety of a container depends on them alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rota.execute.sandbox import container
from rota.execute.sandbox.bubblewrap import Host, Mount, Root, Sandbox, arguments, survey_root
from rota.execute.sandbox.container import Bounds, ContainerSpec, Engine
from rota.execute.sandbox.engine_calls import error_line

ENGINE = Engine(program="/usr/bin/podman", runtime="runc", init=True, open_files=20000, processes=30000)
BOX = ContainerSpec(engine=ENGINE, image="localhost/bb:1", name="rota-ab-7-1", data="rota-ab", tmp_bytes=1024)
GROUP = Bounds(parent="/rota-ab/container-7")


def told(container_spec: ContainerSpec = BOX, bounds: Bounds = GROUP, folder: str = "/data/work/7-1") -> list[str]:
    return container.arguments(container_spec, bounds, folder=folder, uid=2_000_000_007)


def test_podman_whose_limits_a_group_of_ours_holds() -> None:
    assert " ".join(told()) == (
        "/usr/bin/podman --cgroup-manager cgroupfs --runtime runc run --rm --name rota-ab-7-1 --label rota.data=rota-ab"
        " --pull never --log-driver none --no-healthcheck --init --read-only --cap-drop all"
        " --security-opt no-new-privileges --user 2000000007:2000000007 --network none --hostname rota"
        " --ulimit core=0:0 --ulimit nofile=20000:20000 --ulimit nproc=30000:30000"
        " --http-proxy=false --systemd false --read-only-tmpfs=false --cgroups no-conmon"
        " --cgroup-parent /rota-ab/container-7 --pids-limit -1"
        " --mount type=tmpfs,destination=/tmp,tmpfs-size=1024,tmpfs-mode=1777,notmpcopyup,chown"
        " --mount type=bind,source=/data/work/7-1,target=/task"
        " --workdir /task --env-file /dev/fd/3 --entrypoint  localhost/bb:1"
    )


def test_docker_which_holds_the_limits_itself() -> None:
    container_spec = replace(BOX, engine=replace(ENGINE, program="/usr/bin/docker", kind="docker", runtime=""))
    assert " ".join(told(container_spec, Bounds(memory_bytes=1000, pids=9, cpu_milli=1500))) == (
        "/usr/bin/docker run --rm --name rota-ab-7-1 --label rota.data=rota-ab"
        " --pull never --log-driver none --no-healthcheck --init --read-only --cap-drop all"
        " --security-opt no-new-privileges --user 2000000007:2000000007 --network none --hostname rota"
        " --ulimit core=0:0 --ulimit nofile=20000:20000 --ulimit nproc=30000:30000"
        " --memory 1000b --memory-swap 1000b --cpu-shares 1536 --cpus 1.500 --pids-limit 9"
        " --tmpfs /tmp:rw,nosuid,nodev,mode=1777,uid=2000000007,gid=2000000007,size=1024"
        " --mount type=bind,source=/data/work/7-1,target=/task"
        " --workdir /task --env-file /dev/fd/3 --entrypoint  localhost/bb:1"
    )


def test_docker_holds_a_grant_of_cpu_by_its_weight_alone_if_the_task_may_burst() -> None:
    container_spec = replace(BOX, engine=replace(ENGINE, program="/usr/bin/docker", kind="docker", runtime=""))
    held = told(container_spec, Bounds(cpu_milli=250))
    assert without(held, told(container_spec, Bounds(cpu_milli=250, cpu_burst=True))) == ["--cpus", "0.250"]
    assert held[held.index("--cpu-shares") + 1] == "256"


def without(words: list[str], others: list[str]) -> list[str]:
    return [word for word in words if word not in others]


def test_the_network_mounts_devices_and_a_user_without_rights_are_what_changes() -> None:
    container_spec = replace(BOX, network=True, mounts=(Mount("/srv/team", "/srv/team"),), devices=("/dev/nvidia0",))
    assert without(told(container_spec), told()) == [
        "host",
        "--device",
        "/dev/nvidia0",
        "type=bind,source=/srv/team,target=/srv/team,readonly",
    ]
    assert without(told(replace(BOX, engine=replace(ENGINE, rootless=True))), told()) == ["--userns", "keep-id"]


def test_a_folder_with_a_comma_is_one_field_of_its_mount() -> None:
    assert 'type=bind,"source=/a,readonly",target=/task' in told(folder="/a,readonly")


def test_values_of_variables_are_lines_for_a_descriptor_and_no_arguments() -> None:
    assert container.variables({"A": "x = y # z", "B": ""}) == b"A=x = y # z\nB=\n"
    for value in ("x\nPATH=/task", "x\rPATH=/task"):
        with pytest.raises(ValueError, match="the variable A has line breaks"):
            container.variables({"A": value})


def test_removal_and_listing() -> None:
    docker = Engine(program="/usr/bin/docker", kind="docker")
    assert " ".join(container.removal(ENGINE, ["a", "b"])) == (
        "/usr/bin/podman --cgroup-manager cgroupfs --runtime runc rm --force --volumes --time 0 --ignore a b"
    )
    assert container.removal(docker, ["a"]) == ["/usr/bin/docker", "rm", "--force", "--volumes", "a"]
    assert " ".join(container.listing(docker, "rota-ab")) == (
        "/usr/bin/docker ps --all --quiet --no-trunc --filter label=rota.data=rota-ab"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Error: no such image\n", "no such image"),
        ("Trying to pull\nError: initializing source: denied\nhint\n", "initializing source: denied"),
        (
            "docker: Error response from daemon: no such image.\nRun 'docker run --help'\n",
            "Error response from daemon: no such image.",
        ),
        ("something else\n", "something else"),
        ("", ""),
    ],
)
def test_an_engines_error_line(text: str, words: str) -> None:
    assert error_line(text) == words


# ---- a root of its own in a sandbox --------------------------------------------------------------------------------


def test_a_named_root_is_shown_entry_by_entry_instead_of_this_machines_system() -> None:
    links = {"/roots/d/bin": "usr/bin", "/roots/d/etc/resolv.conf": None}
    root = survey_root(
        "/roots/d",
        names=["usr", "bin", "etc", "tmp", "proc", "dev", "run", "task", "sys", "init"],
        link_of=lambda path: links.get(path),
        is_file=lambda path: path == "/roots/d/etc/hosts",
    )
    assert root == Root(
        folder="/roots/d", entries=("etc", "init", "usr"), links=(("bin", "usr/bin"),), etc=("/etc/hosts",)
    )
    host = Host(
        bwrap="/usr/bin/bwrap",
        folders=("/usr",),
        files=("/etc/hosts",),
        reachable_as=(("/roots/d", "/run/s/1"),),
        roots=(root,),
    )
    assert " ".join(arguments(host, Sandbox(root="/roots/d", tmp_bytes=1024), folder="/w/1-1", seccomp=9)) == (
        "--unshare-user --uid 1000 --gid 1000 --disable-userns --unshare-pid --unshare-ipc --unshare-uts"
        " --unshare-cgroup --hostname rota --unshare-net --cap-drop ALL --die-with-parent --new-session --seccomp 9"
        " --ro-bind /run/s/1/etc /etc --ro-bind /run/s/1/init /init --ro-bind /run/s/1/usr /usr"
        " --symlink usr/bin /bin --proc /proc --size 4096 --tmpfs /proc/1 --remount-ro /proc/1 --dev /dev --size 1024 --tmpfs /tmp --size 1024 --tmpfs /dev/shm --dir /run"
        " --remount-ro /dev"
        " --bind /w/1-1 /task --chdir /task --remount-ro /"
    )
    networked = arguments(host, Sandbox(root="/roots/d", network=True), folder="/w/1-1", seccomp=9)
    assert networked[networked.index("/etc/hosts") - 1 : networked.index("/etc/hosts") + 2] == [
        "--ro-bind",
        "/etc/hosts",
        "/etc/hosts",
    ]
