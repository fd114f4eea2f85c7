"""livetrap: reproduces, judges and records hangs of native code."""

__version__ = "0.1.0"
