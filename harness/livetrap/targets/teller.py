"""The teller: a process that loads a module, tells as JSON what it offers, and ends. Loading runs the kernel's code.

What it writes to its descriptor: `LOADED` once the module is loaded, then the document; `{"error": ...}` where it
cannot be loaded. It checks nothing of what it reads but its length. Imports next to nothing, see the package.
"""

from __future__ import annotations

import json
import os
import resource
import sys

from livetrap.targets.loading import load_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any
else:
    import _signal as signal  # the same without its enums

LOADED = b"loaded\n"
MOST_PARAMS = 256
_MOST_TEXT = 4096
_MOST_OUTPUT = 1 << 20


def _text(ffi: Any, at: Any) -> str | None:
    return None if at == ffi.NULL else ffi.string(at, _MOST_TEXT).decode("utf-8", errors="replace")


def _params(ffi: Any, lib: Any, kernel: int) -> list[dict[str, object]]:
    count = lib.lt_kernel_param_count(kernel)
    if count > MOST_PARAMS:
        raise ValueError(f"it has {count} parameters, by its .param_count; at most {MOST_PARAMS} are read")
    found: list[dict[str, object]] = []
    info = ffi.new("struct lt_param_info *")
    for place in range(count):
        lib.lt_kernel_param(kernel, place, info)
        texts = {name: _text(ffi, getattr(info, name)) for name in ("name", "summary", "choices")}
        found.append({**texts, "least": info.least, "most": info.most, "fallback": info.fallback})
    return found


def _tell(ffi: Any, lib: Any) -> dict[str, object]:
    kernels = [
        {
            "name": _text(ffi, lib.lt_kernel_name(place)),
            "summary": _text(ffi, lib.lt_kernel_summary(place)),
            "uses_technique": bool(lib.lt_kernel_uses_technique(place)),
            "params": _params(ffi, lib, place),
        }
        for place in range(lib.lt_kernel_count())
    ]
    techniques = [
        {
            "name": _text(ffi, lib.lt_technique_name(place)),
            "summary": _text(ffi, lib.lt_technique_summary(place)),
            "unavailable": _text(ffi, lib.lt_technique_unavailable(place)),
        }
        for place in range(lib.lt_technique_count())
    ]
    return {"kernels": kernels, "techniques": techniques}


def _limit() -> None:
    """No core dump, no endless output; see the supervisor."""
    core = 1 if sys.platform.startswith("linux") else 0
    for which, soft in ((resource.RLIMIT_CORE, core), (resource.RLIMIT_FSIZE, _MOST_OUTPUT)):
        hard = resource.getrlimit(which)[1]
        resource.setrlimit(which, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def main(arguments: list[str]) -> None:
    """`arguments`: the descriptor to write to, seconds until it ends by itself, the module's name and its path."""
    fd, limit_s, name, path = int(arguments[0]), int(arguments[1]), arguments[2], arguments[3]
    _limit()
    # Should the harness be killed meanwhile, this ends a constructor that does not.
    signal.alarm(limit_s)
    try:
        module = load_module(name, path)
        os.write(fd, LOADED)
        document = _tell(module.ffi, module.lib)
    except (ImportError, ValueError) as error:
        document = {"error": str(error)}
    data = json.dumps(document).encode()
    while data:
        data = data[os.write(fd, data) :]
    os._exit(0)  # no destructor of the kernel's is asked for its opinion
