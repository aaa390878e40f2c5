"""Is a slice allowed in a cluster? What `prefect-tpu quota` asks, and how the answers are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from prefect_tpu.flows.saved import completed
from prefect_tpu.infra.pods import pod_settings
from prefect_tpu.infra.policy.quota import NO_CAPACITY_SAID, Fit, Ruling, together


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Of one accelerator: what each source says."""

    accelerator: str
    rulings: tuple[Ruling, ...]

    @property
    def fit(self) -> Fit:
        return together(self.rulings)

    def to_json(self) -> dict[str, Any]:
        return {"accelerator": self.accelerator, "fit": self.fit, "rulings": [asdict(one) for one in self.rulings]}


def ask(said: Mapping[str, Any], accelerators: Sequence[str], slices: int = 1) -> tuple[Answer, ...]:
    """Ask every source about every accelerator, side by side.

    said: what jobs would say of their pods; the zone is the one that they would name first.
    """
    import anyio

    from prefect_tpu.infra.accelerators import resolve
    from prefect_tpu.infra.backends.jobset_quota import rulings_of_all
    from prefect_tpu.infra.backends.jobset_quota_question import QuotaQuestion

    shapes = {name: resolve(name) for name in accelerators}  # raises what is wrong before anybody is asked
    wanted, _ = completed(said)
    pod_settings({"image": "any", **{name: value for name, value in wanted.items() if value}})  # so does this
    zone = next(iter(wanted.get("zones") or ()), None)
    known = {
        name: wanted[name] for name in ("cluster", "namespace", "queue", "reservation") if wanted.get(name) is not None
    }
    questions = [
        QuotaQuestion(shape=shape, slices=slices, zone=zone, makes_pools=bool(wanted.get("make_pools", False)), **known)
        for shape in shapes.values()
    ]
    found = anyio.run(rulings_of_all, questions)
    return tuple(Answer(accelerator=name, rulings=one) for name, one in zip(shapes, found, strict=True))


def shown(answers: Sequence[Answer]) -> str:
    """A line per source, and below it what to do."""
    width = max(len(answer.accelerator) for answer in answers)
    lines = []
    for answer in answers:
        for ruling in answer.rulings:
            lines.append(f"{answer.accelerator:<{width}}  {ruling.fit}: {ruling.said}")
            if ruling.advice:
                lines.append(f"{'':<{width}}  → {ruling.advice}")
    return "\n".join([*lines, NO_CAPACITY_SAID])


def does_fit(answers: Sequence[Answer]) -> bool:
    """Whether one of them fits, or might."""
    return any(answer.fit is not Fit.DOES_NOT for answer in answers)
