"""What a built module offers: its kernels with their parameters, and its techniques."""

from __future__ import annotations

from typing import Any

from livetrap.build.module import Built
from livetrap.errors import HarnessError
from livetrap.model import KernelInfo, Manifest, ParamInfo, TechniqueInfo
from livetrap.targets.loading import load_module


def _params(ffi: Any, lib: Any, kernel: int) -> dict[str, ParamInfo]:
    found: dict[str, ParamInfo] = {}
    info = ffi.new("struct lt_param_info *")
    for place in range(lib.lt_kernel_param_count(kernel)):
        if not lib.lt_kernel_param(kernel, place, info):
            continue
        choices = _text(ffi, info.choices)
        name = _text(ffi, info.name)
        found[name] = ParamInfo(
            name=name,
            summary=_text(ffi, info.summary),
            choices=tuple(choices.split("|")) if choices else (),
            least=info.least,
            most=info.most,
            fallback=info.fallback,
        )
    return found


def _text(ffi: Any, at: Any) -> str:
    return "" if at == ffi.NULL else ffi.string(at).decode("utf-8", errors="replace")


def manifest(built: Built) -> Manifest:
    """Loads the module into this process and asks it. HarnessError: it cannot be loaded."""
    try:
        module = load_module(built.module, str(built.path))
    except ImportError as error:
        raise HarnessError(
            f"the module cannot be loaded ({error}): a kernel's file NAME.c defines `const struct lt_kernel "
            "lt_kernel_NAME` and uses nothing that is not linked",
            detail=" ".join(built.command),
        ) from None
    ffi, lib = module.ffi, module.lib
    kernels = {}
    for place in range(lib.lt_kernel_count()):
        name = _text(ffi, lib.lt_kernel_name(place))
        kernels[name] = KernelInfo(
            name=name,
            summary=_text(ffi, lib.lt_kernel_summary(place)),
            uses_technique=bool(lib.lt_kernel_uses_technique(place)),
            params=_params(ffi, lib, place),
        )
    techniques = {}
    for place in range(lib.lt_technique_count()):
        name = _text(ffi, lib.lt_technique_name(place))
        techniques[name] = TechniqueInfo(
            name=name,
            summary=_text(ffi, lib.lt_technique_summary(place)),
            unavailable=_text(ffi, lib.lt_technique_unavailable(place)),
        )
    return Manifest(kernels=kernels, techniques=techniques)
