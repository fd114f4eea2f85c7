"""The cache of built modules: ours alone (what lies in it is loaded and run), named by content, filled by renaming."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from livetrap.errors import HarnessError

_TEMPORARY = "tmp-"
_STALE_S = 3600.0
_DIGEST = "digest"


def default_cache(environ: Mapping[str, str] | None = None) -> Path:
    """$LIVETRAP_CACHE, else $XDG_CACHE_HOME/livetrap, else ~/.cache/livetrap."""
    environ = os.environ if environ is None else environ
    if environ.get("LIVETRAP_CACHE"):
        return Path(environ["LIVETRAP_CACHE"])
    if environ.get("XDG_CACHE_HOME"):
        return Path(environ["XDG_CACHE_HOME"]) / "livetrap"
    return Path(environ.get("HOME") or "~").expanduser() / ".cache" / "livetrap"


def failure(what: str, path: Path, error: OSError) -> HarnessError:
    """An error of the system as one line; a full disk is the machine's fault, all else the folder's."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    mend = "make room" if full else "mend it"
    return HarnessError(
        f"{what} {path}: {error.strerror}: {mend}, or set LIVETRAP_CACHE to another folder", status=3 if full else 2
    )


def key(parts: Mapping[str, str]) -> str:
    """A name for what the parts describe: equal parts, equal name. 32 hexadecimal digits."""
    digest = hashlib.sha256()
    for name, text in sorted(parts.items()):
        for piece in (name.encode(), text.encode(errors="surrogateescape")):
            digest.update(len(piece).to_bytes(8, "little"))
            digest.update(piece)
    return digest.hexdigest()[:32]


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def check_cache(path: Path) -> None:
    """Raises the HarnessError that a build would for this folder; makes it where it is not there."""
    with Cache(path).workshop() as workshop:
        try:
            (workshop / "file").write_bytes(b"x" * 4096)
        except OSError as error:
            raise failure("cannot write the cache folder", path, error) from None


def _check(path: Path) -> None:
    status = path.lstat()
    mend = "set LIVETRAP_CACHE to another folder"
    if stat.S_ISLNK(status.st_mode):
        raise HarnessError(f"cache folder {path} is a symbolic link: {mend}")
    if not stat.S_ISDIR(status.st_mode):
        raise HarnessError(f"cache folder {path} is not a folder: {mend}")
    if status.st_uid != os.geteuid():
        raise HarnessError(f"cache folder {path} belongs to another user (id {status.st_uid}): {mend}")
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise HarnessError(f"cache folder {path} is open to other users (mode {mode:04o}): chmod 700 it, or {mend}")


def _make_parents(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, "a folder above it is a file") from error


class Cache:
    """An opened cache folder. HarnessError: it cannot be written, is not ours, or is open to others."""

    def __init__(self, path: Path) -> None:
        # Absolute, but links are not resolved: a link in its last place must be seen.
        self.path = path.expanduser().absolute()
        try:
            _make_parents(self.path.parent)
            with contextlib.suppress(FileExistsError):
                self.path.mkdir(mode=0o700)
            _check(self.path)
            for part in ("modules", "objects"):
                (self.path / part).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise failure("cannot use the cache folder", self.path, error) from None

    def module(self, module_key: str) -> Path:
        """The folder of a module, whether it is there or not."""
        return self.path / "modules" / module_key

    def object(self, object_key: str) -> Path:
        """The file of a compiled object, whether it is there or not."""
        return self.path / "objects" / f"{object_key}.o"

    @contextlib.contextmanager
    def workshop(self) -> Iterator[Path]:
        """A private folder, gone afterwards. Also removes those that killed builds left behind over an hour ago."""
        self._forget_stale()
        try:
            folder = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=self.path))
        except OSError as error:
            raise failure("cannot write the cache folder", self.path, error) from None
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _forget_stale(self) -> None:
        oldest = time.time() - _STALE_S
        for folder in self.path.glob(f"{_TEMPORARY}*"):
            with contextlib.suppress(OSError):
                if folder.lstat().st_mtime < oldest:
                    shutil.rmtree(folder, ignore_errors=True)

    def keep_object(self, made: Path, object_key: str) -> Path:
        """Moves a compiled object to its place; the same object made twice at once is the same file."""
        place = self.object(object_key)
        try:
            made.replace(place)
        except OSError as error:
            raise failure("cannot write the cache folder", self.path, error) from None
        return place

    def forget_module(self, module_key: str) -> None:
        """Removes a module that is not whole, if it is there."""
        with self.workshop() as workshop, contextlib.suppress(FileNotFoundError):
            self.module(module_key).rename(workshop / "old")

    def whole(self, module_key: str, file: str) -> bool:
        """The module is there, as it was when it was kept."""
        place = self.module(module_key)
        try:
            return (place / _DIGEST).read_text(encoding="ascii") == _digest(place / file)
        except (OSError, ValueError):
            return False

    def keep_module(self, made: Path, module_key: str, file: str) -> Path:
        """Moves a module's folder to its place; if another process was first, that one's is as good.

        What is loaded is code: its digest goes with it, so that damage is seen before it is loaded.
        """
        place = self.module(module_key)
        try:
            (made / _DIGEST).write_text(_digest(made / file), encoding="ascii")
            made.rename(place)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise failure("cannot write the cache folder", self.path, error) from None
        return place
