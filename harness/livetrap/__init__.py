"""livetrap: reproduces, judges and records hangs of native code.

A Python program under test needs `livetrap.beat()` alone, and a test `livetrap.run(...)`; both are looked up when they
are first asked for: importing this package stays light.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from livetrap.api import run as run
    from livetrap.beats import beat as beat


def __getattr__(name: str) -> object:
    found: object
    if name == "beat":
        from livetrap.beats import beat as found  # noqa: PLC0415
    elif name == "run":
        from livetrap.api import run as found  # noqa: PLC0415
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found
