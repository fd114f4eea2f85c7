"""livetrap: reproduces, judges and records hangs of native code.

A Python program under test needs `livetrap.beat()` alone, which is looked up when it is first asked for: importing this
package stays light.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from livetrap.beats import beat as beat


def __getattr__(name: str) -> object:
    if name != "beat":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from livetrap.beats import beat as found  # noqa: PLC0415

    globals()["beat"] = found
    return found
