"""Compiles kernels into modules that the forker loads: cffi in API mode, our own compiler invocations, a cache."""

from livetrap.build.cache import check_cache, default_cache
from livetrap.build.compilers import Compiler, find_compiler, installed_compilers
from livetrap.build.flags import check_flags
from livetrap.build.linking import lacking_lto
from livetrap.build.manifest import kept_manifest, manifest
from livetrap.build.module import Built, build, find
from livetrap.build.sources import may_use_technique, python_includes

__all__ = [
    "Built",
    "Compiler",
    "build",
    "check_cache",
    "check_flags",
    "default_cache",
    "find",
    "find_compiler",
    "installed_compilers",
    "kept_manifest",
    "lacking_lto",
    "manifest",
    "may_use_technique",
    "python_includes",
]
