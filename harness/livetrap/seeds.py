"""Seeds that follow from others: the same on any machine and in any run. Pure."""

from __future__ import annotations

import hashlib

SEED_BITS = 53
"""Seeds stay below this many bits: JSON readers that hold numbers as doubles keep them whole."""


def derived(*parts: object) -> int:
    """A number from 0 to 2^53 - 1 that depends on nothing but the texts of these."""
    digest = hashlib.blake2b("\0".join(str(part) for part in parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> (64 - SEED_BITS)


def trial_seed(seed: int, repetition: int, cell_key: str) -> int:
    """The seed of one trial: of its campaign's seed, its cell and its repetition, and of nothing else."""
    return derived(seed, "trial", repetition, cell_key)
