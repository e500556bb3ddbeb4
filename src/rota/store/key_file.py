"""The file with the operator's master keys: read at start, read again whenever it changes, made by `rota up`.

Rotation needs no restart. If the file becomes unreadable or wrong, the last good keys stay and the log says so. The
file must not be readable for everybody, and only the ids of the keys are ever shown.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import structlog

from rota.settings import SettingsError
from rota.store.envelope import BadKeys, Keyring, RandomBytes, new_key_text, parse_keys

log = structlog.get_logger()

FileIdentity = tuple[int, int, int]  # inode, size and time of the file


class KeyFile:
    def __init__(self, path: Path) -> None:
        """Raises SettingsError if the file can't be used."""
        self.path = path
        self._seen, self._keyring = _read(path)

    def __repr__(self) -> str:
        return f"KeyFile({str(self.path)!r})"

    def keyring(self) -> Keyring:
        """The keys as the file has them now."""
        try:
            seen = _identity(os.stat(self.path))
            if seen != self._seen:
                self._seen = seen  # a wrong file is logged once, not at every use
                self._seen, self._keyring = _read(self.path)
                log.info("secrets.keys_read", path=str(self.path), keys=[key.id for key in self._keyring.keys])
        except (SettingsError, OSError) as error:
            log.error("secrets.keys_not_read", path=str(self.path), error=str(error))
        return self._keyring


def open_key_file(path: str) -> KeyFile | None:
    """None: the setting is empty, and there are no secrets."""
    return KeyFile(Path(path)) if path else None


def ensure_key_file(path: Path, random_bytes: RandomBytes) -> None:
    """Makes the file with one new key, readable only for its owner, unless it exists."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "w") as file:
        file.write(new_key_text(random_bytes) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> tuple[FileIdentity, Keyring]:
    try:
        with path.open() as file:
            found = os.fstat(file.fileno())
            text = file.read(64 * 1024)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"secrets_key: {path}: {getattr(error, 'strerror', None) or 'it is not text'}") from None
    if stat.S_IMODE(found.st_mode) & 0o007:
        raise SettingsError(f"secrets_key: {path} is open to every user of this machine; chmod 600 it")
    try:
        return _identity(found), parse_keys(text)
    except BadKeys as error:
        raise SettingsError(f"secrets_key: {path}: {error}") from None


def _identity(found: os.stat_result) -> FileIdentity:
    return found.st_ino, found.st_size, found.st_mtime_ns
