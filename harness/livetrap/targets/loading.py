"""Loads a built module by its path. Imports next to nothing: the forker's heap is copied for every trial."""

from __future__ import annotations

from importlib.machinery import ExtensionFileLoader, ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


def load_module(name: str, path: str) -> ModuleType:
    """The module; ImportError: it cannot be loaded.

    It does not enter sys.modules: modules are told apart by name and path, and each may be loaded more than once.
    """
    loader = ExtensionFileLoader(name, path)
    module = loader.create_module(ModuleSpec(name, loader, origin=path))
    loader.exec_module(module)
    return module
