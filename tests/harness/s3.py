"""Real servers that speak S3, on loopback: moto's, which takes any key, and rclone's, which checks signatures."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tests.harness.cluster import START_SECONDS, free_port

BIN = Path(sys.executable).parent


@contextlib.contextmanager
def moto_server(folder: Path) -> Iterator[str]:
    """With an empty bucket named `bucket`; its address."""
    port = free_port()
    with _process([str(BIN / "moto_server"), "-H", "127.0.0.1", "-p", str(port)], folder / "moto.log") as process:
        url = f"http://127.0.0.1:{port}"
        _until_answering(process, f"{url}/bucket", "PUT")
        yield url


@contextlib.contextmanager
def rclone_server(folder: Path, *, access_key_id: str, secret_access_key: str) -> Iterator[str]:
    """With an empty bucket named `bucket`, for clients with the key; its address."""
    port = free_port()
    (folder / "s3" / "bucket").mkdir(parents=True)
    words = [
        str(BIN / "rclone"),
        "serve",
        "s3",
        "--config",
        os.devnull,
        "--addr",
        f"127.0.0.1:{port}",
        "--auth-key",
        f"{access_key_id},{secret_access_key}",
        str(folder / "s3"),
    ]
    with _process(words, folder / "rclone.log") as process:
        url = f"http://127.0.0.1:{port}"
        _until_answering(process, url, "GET")
        yield url


def s3_environment(url: str, access_key_id: str, secret_access_key: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT": url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": access_key_id,
        "AWS_SECRET_ACCESS_KEY": secret_access_key,
    }


@contextlib.contextmanager
def _process(words: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as output:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _until_answering(process: subprocess.Popen[bytes], url: str, method: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, "the S3 server ended by itself"
        try:
            urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=5)
            return
        except urllib.error.HTTPError:
            return  # it answers, even if only with a refusal
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the S3 server does not answer")
