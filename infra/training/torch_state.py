"""What of a PyTorch program is saved? Its model, its optimizers and whatever else has a `state_dict`, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prefect_tpu.infra.errors import UsageError

MODEL, OPTIMIZER, MORE = "model", "optimizer", "more"
SHOWN = 6  # misfits that a message names


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchState:
    """The objects themselves: what they hold is taken when a save begins.

    model: also as DistributedDataParallel or FSDP has wrapped it; names are those of the bare model.
    more: name → an object that is equal on all hosts, such as a schedule of learning rates.
    only: names of the model's parts that another job's checkpoint gives; empty for all that there is.
    """

    model: Any
    optimizers: tuple[Any, ...]
    more: Mapping[str, Any]
    only: tuple[str, ...] = ()

    def taken(self) -> dict[str, Any]:
        """As PyTorch's distributed checkpoint takes it. Optimizers that never stepped have their state from now on."""
        from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict

        found = {MODEL: get_model_state_dict(self.model)}
        if self.optimizers:
            found[OPTIMIZER] = get_optimizer_state_dict(self.model, self.optimizers)
        if self.more:
            found[MORE] = {name: each.state_dict() for name, each in self.more.items()}
        return found

    def put(self, found: Mapping[str, Any]) -> None:
        """Give the objects what was saved."""
        from torch.distributed.checkpoint.state_dict import set_model_state_dict, set_optimizer_state_dict

        set_model_state_dict(self.model, found[MODEL])
        if self.optimizers:
            set_optimizer_state_dict(self.model, self.optimizers, found[OPTIMIZER])
        for name, each in self.more.items():
            each.load_state_dict(found[MORE][name])

    def parts(self, only: Sequence[str]) -> dict[str, Any]:
        """Tensors of the model whose names begin so, as they lie: whoever writes into them changes the model.

        Raises `UsageError` where there are none.
        """
        from torch.distributed.checkpoint.state_dict import get_model_state_dict

        every = get_model_state_dict(self.model)
        chosen = {name: value for name, value in every.items() if _is_below(name, only)}
        if not chosen:
            raise UsageError(
                f"restore(only={list(only)}): the model has no tensor of such a name. It has {_listed(list(every))}."
            )
        return {MODEL: chosen}


def optimizers(given: Any) -> tuple[Any, ...]:
    """PyTorch's own ones: none, one or several were given, and Accelerate has wrapped them."""
    every = () if given is None else tuple(given) if isinstance(given, list | tuple) else (given,)
    return tuple(getattr(each, "optimizer", each) for each in every)


def misfits(
    wanted: Mapping[str, tuple[int, ...] | None], found: Mapping[str, tuple[int, ...] | None], *, whole: bool
) -> list[str]:
    """What of a checkpoint does not fit, by names and shapes; None is the shape of what is no tensor.

    whole: the checkpoint may have nothing that is not wanted.
    """
    missing = [f"{name} is not in it" for name in wanted if name not in found]
    other = [
        f"{name} is {_shape(found[name])} in it and {_shape(shape)} here"
        for name, shape in wanted.items()
        if name in found and found[name] != shape
    ]
    beyond = [f"{name} is in it alone" for name in found if name not in wanted] if whole else []
    return [*missing, *other, *beyond]


def told(misfit: list[str]) -> str:
    more = f"; and {len(misfit) - SHOWN} more" if len(misfit) > SHOWN else ""
    return "; ".join(misfit[:SHOWN]) + more


def _is_below(name: str, places: Sequence[str]) -> bool:
    return any(name == place or name.startswith(f"{place.rstrip('.')}.") for place in places)


def _shape(shape: tuple[int, ...] | None) -> str:
    return "no tensor" if shape is None else f"of shape {list(shape)}"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (" and more" if len(names) > SHOWN else "")
