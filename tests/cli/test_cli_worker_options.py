"""Bad options of a worker are refused before it connects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Rota


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--capacity", "iops=fast", "--capacity: iops: 'fast' is not an amount"),
        ("--capacity", "bandwidth=", "'bandwidth=' is not a capacity"),
        ("--capacity", "gpu=0.5", "gpu=0.5: write a whole number"),
        ("--capacity", "ports=5000", "the range has 1000; write a larger one with --ports"),
        ("--ports", "30000", "--ports: '30000' is not a range of ports; write 30000-30999"),
        ("--ports", "80-90", "ports go from 1024 to 65535"),
        ("--label", "zone", "'zone' is not NAME=VALUE"),
        ("--engine", "lxc", "'lxc' is not auto, podman, docker or none"),
        ("--mount", "team:/srv:tenant=", "'' is not a tenant's name; write tenant=acme,beta"),
        ("--mount", "team:/srv:ro:tenant=a,B", "'B' is not a tenant's name"),
        ("--mount", "team:/srv:rx", "'rx' is neither ro nor rw, nor tenant=NAME"),
        ("--device", "gpu0=/etc/passwd", "--device: 'gpu0=/etc/passwd': '/etc/passwd' is not a path under /dev"),
        ("--device", "fpga=/dev/full", "the files of fpga are for every fpga, but there is none; name fpga0=… too"),
        ("--device", "gpu1=/dev/null", "there is no gpu0"),
        ("--capacity", "cpu=0", "--capacity: cpu=0: every task needs some; leave it out to offer what there is"),
        ("--capacity", "memory=0", "--capacity: memory=0: every task needs some"),
        ("--name", "two words", "'two words' is not a node's name: letters, digits, hyphen, underscore and dot"),
        ("--name", "red\x1b[31m", "'red\\x1b[31m' is not a node's name"),
        ("--name", "-x", "'-x' is not a node's name"),
        (
            "--data",
            "/etc/passwd",
            "--data: /etc/passwd can't be a folder, because /etc/passwd is a file",
        ),
        ("--data", "/etc/passwd/x", "--data: /etc/passwd/x can't be a folder, because /etc/passwd is a file"),
        (
            "--data",
            "/proc/none",
            "--data: /proc/none can't be made: No such file or directory; name a folder that you may write to",
        ),
        ("--idle-exit", "soon", "'soon' is not a duration"),
        ("--idle-exit", "10ms", "it is a duration from 1s to 30d, not '10ms'"),
        ("--registry", "https://ghcr.io", "'https://ghcr.io' is not a registry: NAME, NAME:PORT, *.DOMAIN, or none"),
        ("--pull-timeout", "0s", "'0s' is not from 1s to 1d"),
        ("--pull-timeout", "soon", "'soon' is not a duration"),
        ("--frozen-limit", "31d", "'31d' is not from 0s to 30d"),
        ("--frozen-limit", "long", "'long' is not a duration"),
        ("--image-limit", "0", "the size must be from 1 byte to 1Ti"),
        ("--rootfs", "debian", "'debian' is not a root; write debian:/srv/roots/debian"),
        ("--rootfs", "debian:/no/such", "there is no folder /no/such on this node"),
        ("--rootfs", "debian:/proc/self/fd", "has neither bin nor usr"),
        ("--rootfs", "debian:/", "there is no folder / on this node with a system of its own"),
    ],
)
def test_nonsense_ends_the_worker_with_2(rota: Rota, tmp_path: Path, option: str, value: str, said: str) -> None:
    ran = rota("worker", "--data", str(tmp_path), option, value)
    assert ran.code == 2
    assert said in ran.err


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--device", "gpu0=/etc/passwd", "'/etc/passwd' is not a path under /dev"),
        ("--mount", "team:/tmp/team", "'/tmp/team' can't be shown; name an absolute folder, not in /proc, /dev, /tmp"),
    ],
)
def test_what_it_offers_is_checked_before_everything_is_started(
    rota: Rota, tmp_path: Path, option: str, value: str, said: str
) -> None:
    ran = rota("up", "--data", str(tmp_path), option, value)
    assert (ran.code, list(tmp_path.iterdir())) == (2, [])
    assert said in ran.err


@pytest.mark.parametrize("command", ["up", "doctor"])
def test_a_file_is_no_folder_for_data(rota: Rota, command: str) -> None:
    ran = rota(command, "--data", "/etc/passwd")
    assert ran.code == 2
    assert "--data: /etc/passwd can't be a folder, because /etc/passwd is a file" in ran.err
    assert ran.out == ""


def test_one_device_under_two_numbers_is_refused(rota: Rota, tmp_path: Path) -> None:
    ran = rota("worker", "--data", str(tmp_path), "--device", "gpu0=/dev/null", "--device", "gpu1=/dev/null")
    assert ran.code == 2
    assert "--device: gpu0 and gpu1 are the same device: /dev/null" in ran.err
