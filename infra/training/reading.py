"""How is a checkpoint read? By Orbax, leaf by leaf into the placement and the type of the state that is given."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from prefect_tpu.infra.errors import UsageError
from prefect_tpu.infra.plan import RestorePoint
from prefect_tpu.infra.training import fitting, leaves
from prefect_tpu.infra.training.fitting import Leaf, Only, Path

STATE, DATA = "state", "data"  # what Orbax calls the parts of a checkpoint
WHOLE = "value"  # Orbax takes no bare leaf, so every state lies below one key
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """How messages speak of whoever reads: the call that the program wrote, what it gave to be filled, what to do."""

    call: str = "checkpoints"
    given: str = "the state given to restore()"
    advice: str = (
        "Give a state of the same structure and shapes, name the leaves that are to come from it (only=…), or start"
        " under another name."
    )


STATE_READER = Reader()


def read(where: str, point: RestorePoint, state: Any, only: Only | None, *, with_data: bool, reader: Reader) -> Any:
    """(state, positions in the data) of a checkpoint. On all hosts at once.

    Args:
        where: its folder or URL.
        only: which leaves come from it; the others stay as given.
        with_data: whether positions lie in it.
        reader: for the messages.

    Raises:
        UsageError: a leaf does not fit, or something else than the reader's call wrote it.
    """
    import jax
    import orbax.checkpoint as ocp  # type: ignore[import-untyped]

    stored = _stored(where, point, reader)
    given = leaves.named(leaves.to_disk(state))
    is_chosen = fitting.chooser(only)
    wanted = {path: leaf for path, leaf in given.items() if is_chosen(path)}
    fitting.check_chosen(list(wanted), list(given), only)
    _check(point, _looks(leaves.named(stored[WHOLE])), _looks(wanted), reader, all_of_it=only is None)

    def target(path: Any, _: Any) -> Any:
        return wanted.get(leaves.path_of(path)[1:], ocp.PLACEHOLDER)  # below `WHOLE`

    item = jax.tree_util.tree_map_with_path(target, stored)
    restore_args = ocp.checkpoint_utils.construct_restore_args(item)
    items = {STATE: ocp.args.PyTreeRestore(item=item, restore_args=restore_args)}
    if with_data:
        items[DATA] = ocp.args.JsonRestore()
    # One of its own: a checkpointer goes on to write a part in the way in which it has read it.
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
        found = checkpointer.restore(where, args=ocp.args.Composite(**items))
    values = {path: leaf for path, leaf in leaves.named(found[STATE][WHOLE]).items() if path in wanted}
    return leaves.from_disk(state, values), found[DATA]["hosts"] if with_data else None


def _stored(where: str, point: RestorePoint, reader: Reader) -> Any:
    """The tree that was stored, with a description in place of each leaf."""
    import orbax.checkpoint as ocp
    from etils import epath  # type: ignore[import-untyped]

    try:
        # Of the handler itself: a checkpointer warns of a file that parts of a checkpoint do not have.
        return ocp.PyTreeCheckpointHandler().metadata(epath.Path(where) / STATE).tree
    except FileNotFoundError as exc:
        raise UsageError(
            f"The checkpoint of step {point.step} (attempt {point.attempt}) was not written by"
            f" prefect_tpu.{reader.call}(): {where} has no {STATE} of Orbax. Read it with what wrote it, or start under"
            " another name."
        ) from exc


def _check(
    point: RestorePoint, found: dict[Path, Leaf], wanted: dict[Path, Leaf], reader: Reader, *, all_of_it: bool
) -> None:
    misfits = fitting.misfits(found, wanted, all_of_it=all_of_it)
    if misfits:
        raise UsageError(
            f"The checkpoint of step {point.step} (attempt {point.attempt}) does not fit {reader.given}:"
            f" {fitting.shortened(misfits)}. {reader.advice}"
        )
    losses = fitting.losses(found, wanted)
    if losses:
        logger.warning(
            "Values of the checkpoint of step %s are rounded to the types of %s: %s.",
            point.step,
            reader.given,
            fitting.shortened(losses),
        )


def _looks(named: dict[Path, Any]) -> dict[Path, Leaf]:
    return {path: leaves.look(leaf) for path, leaf in named.items()}
