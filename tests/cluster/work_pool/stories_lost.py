"""Hosts that are lost under a flow run: the leader, a follower, the whole slice, with and without a notice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scenes import HOSTS, Played, Scene, Story, played
from slice_runs import SliceRun

BOTH = ("postgres", "sqlite")
WHO: dict[str, Callable[[SliceRun], Sequence[str]]] = {
    "leader": lambda run: [run.node(0)],
    "follower": lambda run: [run.node(1)],
    "slice": lambda run: [run.node(host) for host in range(HOSTS)],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """who: is lost. with_notice: whether it is told before. has_region: whether the hosts work for the flow by then.

    fails_first: whether the flow has used its one retry by then, which Prefect tells apart.
    """

    who: str
    with_notice: bool
    has_region: bool
    fails_first: bool
    on: tuple[str, ...] = ("postgres",)

    @property
    def name(self) -> str:
        words = (
            self.who,
            "told" if self.with_notice else "gone",
            "region" if self.has_region else "flow",
            "retried" if self.fails_first else "",
        )
        return "-".join(filter(None, words))

    def play(self, scene: Scene) -> Played:
        """The run goes on when the slice is there again."""
        variables = scene.add_slice()
        run = scene.start("train", variables, has_region=self.has_region, fails_first=self.fails_first)
        run.wait_until_up(1, HOSTS if self.has_region else 1)
        nodes = WHO[self.who](run)
        scene.lose(*nodes, with_notice=self.with_notice)
        scene.wait_until_lost(*nodes)
        run.wait_for_name("AwaitingRetry", "Scheduled", "Late", "Pending", "Running")
        run.let_go_on()
        scene.give_again()
        return played(run, scene.pool)


LOSSES = (
    Loss(who="leader", with_notice=True, has_region=True, fails_first=False),
    Loss(who="leader", with_notice=False, has_region=True, fails_first=True, on=BOTH),
    Loss(who="follower", with_notice=True, has_region=True, fails_first=True),
    Loss(who="follower", with_notice=False, has_region=True, fails_first=False),
    Loss(who="slice", with_notice=True, has_region=True, fails_first=True, on=BOTH),
    Loss(who="slice", with_notice=False, has_region=True, fails_first=False),
    Loss(who="leader", with_notice=True, has_region=False, fails_first=True),
    Loss(who="follower", with_notice=False, has_region=False, fails_first=False),
    Loss(who="slice", with_notice=False, has_region=False, fails_first=True),
    Loss(who="leader", with_notice=False, has_region=False, fails_first=False),
    Loss(who="follower", with_notice=True, has_region=False, fails_first=False),
    Loss(who="slice", with_notice=True, has_region=False, fails_first=False),
)
STORIES = [Story(name=loss.name, play=loss.play, on=loss.on) for loss in LOSSES]
