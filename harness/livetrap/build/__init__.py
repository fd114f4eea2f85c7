"""Compiles kernels into modules that the forker loads: cffi in API mode, our own compiler invocations, a cache."""

from livetrap.build.cache import default_cache
from livetrap.build.compilers import Compiler, find_compiler, installed_compilers
from livetrap.build.flags import check_flags
from livetrap.build.manifest import manifest
from livetrap.build.module import Built, build

__all__ = [
    "Built",
    "Compiler",
    "build",
    "check_flags",
    "default_cache",
    "find_compiler",
    "installed_compilers",
    "manifest",
]
