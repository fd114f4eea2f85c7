"""Where the C sources and the scenarios lie: beside the package in a checkout, inside it when installed."""

from __future__ import annotations

from pathlib import Path

from livetrap.errors import HarnessError

_PACKAGE = Path(__file__).resolve().parent


def _folder(name: str) -> Path:
    installed = _PACKAGE / name
    checkout = _PACKAGE.parent.parent / name
    for place in (installed, checkout):
        if place.is_dir():
            return place
    raise HarnessError(f"livetrap's own {name}/ is neither at {installed} nor at {checkout}: install it anew", status=3)


def csrc_dir() -> Path:
    """The folder of the C sources. HarnessError: this copy of livetrap is not whole."""
    return _folder("csrc")


def scenarios_dir() -> Path:
    """The folder of the scenarios shipped. HarnessError: this copy of livetrap is not whole."""
    return _folder("scenarios")


def _stems(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in folder.glob("*.c") if "." not in path.stem))


def kernel_names(csrc: Path | None = None) -> tuple[str, ...]:
    """Names of the kernels shipped, sorted: one C file each, NAME.c; a NAME.PART.c is no kernel but a part of one."""
    return _stems((csrc or csrc_dir()) / "kernels")


def technique_names(csrc: Path | None = None) -> tuple[str, ...]:
    """Names of the techniques shipped, sorted: one C file each."""
    return _stems((csrc or csrc_dir()) / "techniques")
