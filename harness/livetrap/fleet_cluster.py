"""The way to a dask cluster: who is there, whether it fits, and what it says when it is asked."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import queue
import re
import socket
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import livetrap
from livetrap import fleet_worker
from livetrap.errors import HarnessError
from livetrap.fleet_worker import Brief

INSTALL = "pip install 'livetrap[fleet]'"
RESOURCE = "livetrap"
"""A worker that has so many of this dask resource runs so many trials at once; without it: one, with one thread."""
CONNECT_S = 5.0
ANSWER_S = 15.0
LOST = {"KilledWorker", "FutureCancelledError", "CancelledError"}
"""Names of dask's errors that say so."""

_ADDRESS = re.compile(r"(?:(?:tcp|tls)://)?([A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.%]+\]):(\d{1,5})")


def check(executor: str, *, connect_s: float = CONNECT_S) -> None:
    """Raises HarnessError for a text that names no executor; status 3 where none is there, or its extra is missing.

    `connect_s`: in so many seconds something must answer at its address.
    """
    host_name, port = parse(executor)
    if importlib.util.find_spec("distributed") is None:
        raise HarnessError(f"--executor {executor} needs dask.distributed: {INSTALL}", status=3)
    end = time.monotonic() + connect_s
    while True:
        try:
            socket.create_connection((host_name, port), timeout=connect_s).close()
        except OSError as error:
            if time.monotonic() >= end:
                raise _unanswered(f"{host_name}:{port}", error.strerror or str(error)) from None
            time.sleep(0.1)  # it may be about to start
        else:
            return


def parse(executor: str) -> tuple[str, int]:
    """Host and port of the scheduler. HarnessError: the text names no executor."""
    kind, _, address = executor.partition(":")
    match = _ADDRESS.fullmatch(address)
    if kind != "dask" or match is None or not 1 <= int(match[2]) <= 65535:
        raise HarnessError(f"--executor {executor!r} is none; give dask:ADDRESS, e.g. --executor dask:tcp://HOST:8786")
    return match[1].strip("[]"), int(match[2])


def slots(worker: Mapping[str, Any]) -> int:
    """How many trials a worker may run at once, from what its scheduler knows of it; 0: it reserves no cores."""
    reserved = worker.get("resources", {}).get(RESOURCE)
    if reserved is not None:
        return int(reserved)
    return 1 if worker.get("nthreads") == 1 else 0


def reason(client: Any, brief: Brief, worker: str, known: Mapping[str, Any]) -> str | None:
    """Why a worker does not fit; empty: it does; None: it is gone, or does not answer yet."""
    if slots(known) < 1:
        return f"it runs {known.get('nthreads')} tasks at once; start it with --nthreads 1"
    version = _ask(client, worker, _version_asker())
    if isinstance(version, ModuleNotFoundError):
        return f"it has no livetrap; this is {livetrap.__version__}, install the same there"
    if isinstance(version, str) and version != livetrap.__version__:
        return f"it has livetrap {version}, this is {livetrap.__version__}; install the same there"
    if isinstance(version, TimeoutError):
        return f"it does not answer within {ANSWER_S:.0f} s"
    if not isinstance(version, str):
        return None if version is None or lost(version) else f"{type(version).__name__}: {version}"
    reason = _ask(client, worker, fleet_worker.unfit, brief)
    if isinstance(reason, Exception):
        return None if lost(reason) else f"{type(reason).__name__}: {reason}"
    return str(reason) if reason is not None else None


def _ask(client: Any, worker: str, function: Callable[..., object], *arguments: object) -> object:
    """What a worker answers; an exception is an answer too. None: there was none."""
    try:
        answers = within(ANSWER_S, lambda: client.run(function, *arguments, workers=[worker], on_error="return"))
    except Exception as error:  # whatever was raised there, or on the way
        return error
    return answers.get(worker)


def within(limit_s: float, function: Callable[[], Any]) -> Any:
    """What a function gives or raises. TimeoutError: it takes longer; what becomes of it then is of no interest."""
    done: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()

    def call() -> None:
        try:
            done.put((function(), None))
        except Exception as error:
            done.put((None, error))

    threading.Thread(target=call, daemon=True).start()
    try:
        found, error = done.get(timeout=limit_s)
    except queue.Empty:
        raise TimeoutError(f"no answer within {limit_s:.0f} s") from None
    if error is not None:
        raise error
    return found


def _version_asker() -> Callable[[], str]:
    """A function that travels whole, not by name: a worker may have no livetrap, or another."""

    def version() -> str:
        import livetrap as there  # noqa: PLC0415 - the worker's

        return str(there.__version__)

    return version


def lost(error: object) -> bool:
    """The error says that a worker, or the way to it, was lost."""
    return isinstance(error, OSError) or type(error).__name__ in LOST


def connected(address: str, connect_s: float) -> Any:
    distributed = importlib.import_module("distributed")
    # What it has to say of a lost connection is said in one line of ours.
    logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return distributed.Client(
                address if "://" in address else f"tcp://{address}", timeout=connect_s, set_as_default=False
            )
    except Exception as error:
        raise _unanswered(address, type(error).__name__) from error


def _unanswered(address: str, why: str) -> HarnessError:
    return HarnessError(
        f"no dask scheduler answers at {address} ({why}); start one there (dask scheduler), or mend the address",
        status=3,
    )
