"""What is seen of the live attempt's hosts, kept up to date beside everything else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

import anyio
from anyio.abc import TaskGroup

from prefect_tpu.infra.backends.base import Backend, Handle
from prefect_tpu.infra.launcher.view import Live
from prefect_tpu.infra.plan import HostPlan
from prefect_tpu.infra.policy.offers import offer_of
from prefect_tpu.infra.state import Observation


class Following:
    """Looks at one attempt's hosts until it is let go. Times are seconds of the event loop's clock.

    age: seconds since the attempt was sent, for as long it may have waited before this process looked.
    """

    def __init__(
        self, backend: Backend, handle: Handle, heard: Callable[[Observation], None], age: float = 0.0
    ) -> None:
        self.handle = handle
        self._backend, self._heard = backend, heard
        self._scope = anyio.CancelScope()
        self._has_news = anyio.Event()
        self._broken: Exception | None = None
        self._began = anyio.current_time() - age
        self._failing_since: float | None = None
        self._waiting_since: float | None = None
        self._stopping_since: float | None = None
        self._seen: Observation | None = None

    @property
    def seen(self) -> Observation:
        assert self._seen is not None, "the first look comes before anybody sees this object"
        return self._seen

    @property
    def was_told_to_leave(self) -> bool:
        return self._stopping_since is not None

    @property
    def is_pressing(self) -> bool:
        """Whether time alone soon makes something due: a host has failed, or all were told to leave."""
        return self._failing_since is not None or self._stopping_since is not None

    @property
    def waiting_for(self) -> float | None:
        """Seconds that the attempt has been without a slice; None where it has one."""
        return _since(self._waiting_since)

    def live(self, plan: HostPlan) -> Live:
        """The facts of the attempt for `step`."""
        return Live(
            number=plan.attempt,
            offer=offer_of(plan),
            observation=self._seen,
            failing_for=_since(self._failing_since),
            waiting_for=self.waiting_for,
            stopping_for=_since(self._stopping_since),
        )

    async def news(self, at_most: float) -> None:
        """Return on the next snapshot, or after a while: time alone may make an action due."""
        with anyio.move_on_after(at_most):
            await self._has_news.wait()
        self._has_news = anyio.Event()
        if self._broken is not None:
            raise self._broken

    def nudge(self) -> None:
        """Whoever waits for news looks again."""
        self._has_news.set()

    async def tell_to_leave(self) -> None:
        """Tell the hosts to save and leave; from now on their grace runs."""
        if self._stopping_since is None:
            self._stopping_since = anyio.current_time()
        await self._backend.stop(self.handle)

    def let_alone(self) -> None:
        """Look no more; the attempt goes on by itself."""
        self._scope.cancel()

    async def end(self) -> None:
        """Look no more, and end whatever of the attempt still lives."""
        self.let_alone()
        await self._backend.forget(self.handle)

    async def keep_looking(self) -> None:
        with self._scope:
            try:
                async with aclosing(self._backend.observe(self.handle)) as snapshots:
                    async for seen in snapshots:
                        self.note(seen)
            except Exception as exc:  # raised where somebody waits for news, not here where nobody does
                self._broken = exc
                self._has_news.set()

    def note(self, seen: Observation) -> None:
        if seen.waiting is None:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = self._began if self._seen is None else anyio.current_time()
        self._seen = seen
        if seen.has_failure and self._failing_since is None:
            self._failing_since = anyio.current_time()
        self._has_news.set()
        self._heard(seen)


async def follow(
    backend: Backend, handle: Handle, heard: Callable[[Observation], None], tasks: TaskGroup, age: float = 0.0
) -> Following:
    """A first look, and then one on each change, in a task of its own."""
    following = Following(backend, handle, heard, age)
    following.note(await look(backend, handle))
    tasks.start_soon(following.keep_looking)
    return following


async def look(backend: Backend, handle: Handle) -> Observation:
    """One snapshot, now."""
    async with aclosing(backend.observe(handle)) as snapshots:
        return await anext(aiter(snapshots))


def _since(moment: float | None) -> float | None:
    return None if moment is None else anyio.current_time() - moment
