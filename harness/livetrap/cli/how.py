"""How a plan is run, beside what it is: which part of it, until when, and where. What the options say of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from livetrap import campaign, confident, host, sharding
from livetrap.errors import HarnessError
from livetrap.model import Frozen
from livetrap.preparing import Prepared
from livetrap.sharding import Shard

if TYPE_CHECKING:
    from livetrap.crew import Work
    from livetrap.trial import Outcome

    Crew = Callable[[Callable[[Work, Outcome], None]], campaign.CrewLike]


class How(Frozen, kw_only=True):
    """How a plan is run, beside what it is."""

    shard: Shard | None = None
    """Only this part of it."""
    until_confident: float | None = None
    """Go on until the rate of what is fixed is surely below this, or it hangs."""
    executor: str = ""
    """Where its trials run, such as `dask:tcp://host:8786`; empty: here, one after the other."""

    def words(self) -> dict[str, object]:
        """What the record says of it; what was not asked for is left out."""
        said = {"shard": str(self.shard or ""), "until_confident": self.until_confident, "executor": self.executor}
        return {name: value for name, value in said.items() if value}


ALONE = How()
"""The whole plan, here, once."""


def asked_how(*, shard: str | None, until_confident: float | None, executor: str | None) -> How:
    """How the options of a command line say that a plan is run. HarnessError: they do not fit, or one is bad."""
    how = How(
        shard=sharding.parse(shard) if shard is not None else None,
        until_confident=until_confident,
        executor=executor or "",
    )
    if executor is not None and not executor.strip():
        raise HarnessError("--executor is empty; give one, e.g. --executor dask:tcp://HOST:8786, or leave it out")
    if until_confident is not None:
        confident.check(until_confident)
    if how.shard is not None and until_confident is not None:
        raise HarnessError("--shard and --until-confident: what one shard saw does not tell when all have seen enough")
    check_executor(how.executor)
    return how


def check_executor(executor: str) -> None:
    """Raises HarnessError for a text that names none."""
    if executor:
        from livetrap import fleet  # noqa: PLC0415 - what it needs is an extra

        fleet.check(executor)


def until_of(prepared: Prepared, how: How) -> confident.Until | None:
    """What says which trials a plan has and when they end; None: the plan does."""
    if how.until_confident is None:
        return None
    return confident.Until(prepared.plan, how.until_confident, topology=host.topology())


def crew_of(prepared: Prepared, how: How) -> Crew | None:
    """Who runs the trials; None: this machine alone."""
    if not how.executor:
        return None
    from livetrap import fleet  # noqa: PLC0415 - what it needs is an extra

    return fleet.crew(how.executor, prepared)
