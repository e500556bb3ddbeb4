"""Archives for tests, good and bad."""

from __future__ import annotations

import io
import tarfile


def tar_of(*members: tuple[str, bytes | str], mode: int = 0o644) -> bytes:
    """Text as content makes a symbolic link to it."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.mode = mode
            if isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
                archive.addfile(member)
            else:
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return file.getvalue()
