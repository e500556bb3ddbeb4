"""A registry of container images on the loopback address, without TLS: it serves one small image under every name."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class Registry:
    """What was asked, and what is answered."""

    def __init__(self) -> None:
        self.port = 0
        self.asked: list[str] = []
        self.redirect_blobs_to = ""
        self._blobs: dict[str, bytes] = {}
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as archive:
            entry = tarfile.TarInfo("etc/who")
            entry.size = 8
            archive.addfile(entry, io.BytesIO(b"from it\n"))
        packed = gzip.compress(layer.getvalue())
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer.getvalue())]},
        }
        self._manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": self._put(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
                "layers": [self._put(packed, "application/vnd.oci.image.layer.v1.tar+gzip")],
            }
        ).encode()

    def _put(self, content: bytes, kind: str) -> dict[str, object]:
        self._blobs[_digest(content)] = content
        return {"mediaType": kind, "size": len(content), "digest": _digest(content)}

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(path)
        what, _, reference = path.rpartition("/")
        if what.endswith("/manifests"):
            return 200, {"content-type": MANIFEST, "docker-content-digest": _digest(self._manifest)}, self._manifest
        if what.endswith("/blobs") and self.redirect_blobs_to:
            return 307, {"location": self.redirect_blobs_to + path}, b""
        if what.endswith("/blobs") and reference in self._blobs:
            return 200, {"content-type": "application/octet-stream"}, self._blobs[reference]
        return (200, {"docker-distribution-api-version": "registry/2.0"}, b"{}") if path == "/v2/" else (404, {}, b"")


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


@contextmanager
def serving(registry: Registry) -> Iterator[Registry]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status, headers, body = registry.answer(self.path)
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        registry.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()
