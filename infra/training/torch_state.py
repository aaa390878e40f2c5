"""What of a PyTorch program is saved? Its model, its optimizers and whatever else has a `state_dict`, by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.training import torch_pieces
from prefect_tpu.infra.training.fitting import SHOWN, Only, names_of

MODEL, OPTIMIZER, MORE = "model", "optimizer", "more"


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchState:
    """The objects themselves: what they hold is taken when a save begins.

    model: also as DistributedDataParallel or FSDP has wrapped it; names are those of the bare model.
    more: name → an object that is equal on all hosts, such as a schedule of learning rates.
    """

    model: Any
    optimizers: tuple[Any, ...]
    more: Mapping[str, Any]

    def taken(self) -> dict[str, Any]:
        """As PyTorch's distributed checkpoint takes it. Optimizers that never stepped have their state from now on."""
        from torch.distributed.checkpoint.state_dict import get_model_state_dict, get_optimizer_state_dict

        found = {MODEL: get_model_state_dict(self.model)}
        if self.optimizers:
            found[OPTIMIZER] = get_optimizer_state_dict(self.model, self.optimizers)
        if self.more:
            found[MORE] = {name: torch_pieces.taken(each.state_dict()) for name, each in self.more.items()}
        return found

    def put(self, found: Mapping[str, Any]) -> None:
        """Give the objects what was saved."""
        from torch.distributed.checkpoint.state_dict import (
            StateDictOptions,
            set_model_state_dict,
            set_optimizer_state_dict,
        )

        set_model_state_dict(self.model, found[MODEL])
        if self.optimizers:
            # What must be there has been compared; a parameter that no step has used has no state.
            lax = StateDictOptions(strict=False)
            set_optimizer_state_dict(self.model, self.optimizers, found[OPTIMIZER], options=lax)
        for name, each in self.more.items():
            each.load_state_dict(torch_pieces.given_back(found[MORE][name]))

    def parts(self, only: Only) -> dict[str, Any]:
        """Some tensors of the model, as they lie: whoever writes into them changes the model.

        Raises `UsageError` where there are none, or a name of `only` names none.
        """
        from torch.distributed.checkpoint.state_dict import get_model_state_dict

        return {MODEL: chosen(get_model_state_dict(self.model), only)}


def optimizers(given: Any) -> tuple[Any, ...]:
    """PyTorch's own ones: none, one or several were given, and Accelerate may have wrapped them."""
    every = () if given is None else tuple(given) if isinstance(given, list | tuple) else (given,)
    return tuple(getattr(each, "optimizer", each) for each in every)


def check_optimizers(model: Any, given: tuple[Any, ...]) -> None:
    """Raise `UsageError` where an optimizer trains what is not of the model: nothing of it could be saved by name."""
    own = {id(parameter) for parameter in model.parameters()} if given else set()
    for each in given:
        strange = sum(id(one) not in own for group in each.param_groups for one in group["params"])
        if strange:
            raise UsageError(
                f"torch_checkpoints() was given a {type(each).__name__} that trains {strange} tensors which are not"
                " of the model: give the model that it was made for, also as it was wrapped since."
            )


def without_idle(wanted: Mapping[str, Any], stored: Collection[str]) -> dict[str, Any]:
    """What is wanted but for the optimizer's state of parameters that had none when it was saved.

    An optimizer remembers nothing of a parameter that has had no gradient yet; here each has a state, to be filled.

    stored: the names that a checkpoint has. Where it has no such state at all, another kind of optimizer wrote it.
    """
    state = wanted.get(OPTIMIZER, {}).get("state", {})
    used = {
        name: each for name, each in state.items() if any(f"{OPTIMIZER}.state.{name}.{key}" in stored for key in each)
    }
    return {**wanted, OPTIMIZER: {**wanted[OPTIMIZER], "state": used}} if used else dict(wanted)


def chosen(every: Mapping[str, Any], only: Only) -> dict[str, Any]:
    """What has a name of `only` or lies below it, or what it says yes to; names are PyTorch's, with dots."""
    if callable(only):
        found = {name: value for name, value in every.items() if only(name)}
        idle = [] if found else [repr(only)]
    else:
        names = names_of(only)
        found = {name: value for name, value in every.items() if any(_is_below(name, above) for above in names)}
        idle = [repr(above) for above in names if not any(_is_below(name, above) for name in every)]
    if idle or not found:
        has = ", ".join(list(every)[:SHOWN]) + (" and more" if len(every) > SHOWN else "")
        raise UsageError(f"restore(only=…): {', '.join(idle) or 'it'} names no tensor of the model. It has {has}.")
    return found


def misfits(
    wanted: Mapping[str, tuple[int, ...] | None], found: Mapping[str, tuple[int, ...] | None], *, all_of_it: bool
) -> list[str]:
    """What of a checkpoint does not fit, by names and shapes; None is the shape of what is no tensor.

    all_of_it: the checkpoint may have nothing that is not wanted.
    """
    return [
        f"{name}: the checkpoint has {_said(name, found)}, the program {_said(name, wanted)}"
        for name in (dict.fromkeys([*wanted, *found]) if all_of_it else wanted)
        if name not in found or name not in wanted or found[name] != wanted[name]
    ]


def _is_below(name: str, above: str) -> bool:
    return name == above or name.startswith(f"{above.rstrip('.')}.")


def _said(name: str, shapes: Mapping[str, tuple[int, ...] | None]) -> str:
    if name not in shapes:
        return "nothing"
    shape = shapes[name]
    return "no tensor" if shape is None else f"a tensor of {list(shape)}"
