"""Which compiler flags an axis may have: those that change the code, not those that change what the compiler does."""

from __future__ import annotations

import re

from livetrap.errors import HarnessError

_ALLOWED = re.compile(r"-(O|f|m|g|W|D|U|std=|pedantic|ansi$|pthread$|w$)[^\0\n]*")
_LEVEL = re.compile(r"-O([0-9]|s|g|z|fast)?")
_REFUSED = (
    (re.compile(r"-W[lpa],.*"), "it goes to the linker, preprocessor or assembler"),
    (
        re.compile(r"-f(syntax-only|plugin.*|dump-.*|pass-plugin.*|preprocessed|working-directory.*)"),
        "it makes no module",
    ),
    (re.compile(r"-fno-pic|-fno-PIC|-fpie|-fPIE|-mcmodel=.*"), "a module must be position-independent"),
    (
        re.compile(r"-fsanitize=.*(thread|address|memory|leak|fuzzer).*"),
        "so sanitized code cannot be loaded into Python",
    ),
    (re.compile(r"-m(16|32|x32)"), "a module must be of the interpreter's own kind"),
)
_HELP = "a flag is one of -O* -f* -m* -g* -D* -U* -W* -std=*, e.g. -O2"


def check_flags(flags: tuple[str, ...]) -> str:
    """The optimisation level that the flags set (the last one wins, as for the compiler), e.g. `-O2`.

    HarnessError: a flag that could break the build, or no level: it is always explicit, since a hang may depend on it.
    """
    level = ""
    for flag in flags:
        if not _ALLOWED.fullmatch(flag):
            raise HarnessError(f"flags: {flag!r} is not for compiling a kernel: {_HELP}")
        for pattern, why in _REFUSED:
            if pattern.fullmatch(flag):
                raise HarnessError(f"flags: {flag!r} cannot be used: {why}; {_HELP}")
        if flag.startswith("-O"):
            if not _LEVEL.fullmatch(flag):
                raise HarnessError(f"flags: {flag!r} is no optimisation level: -O0 -O1 -O2 -O3 -Os -Og -Oz -Ofast")
            level = flag
    if not level:
        raise HarnessError(f"flags: no optimisation level in {' '.join(flags)!r}: say which, e.g. -O2")
    return level
