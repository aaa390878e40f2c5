"""How is a save finished in the background, so that what goes wrong there is told in the program's own thread?"""

from __future__ import annotations

import threading
from collections.abc import Callable

from prefect_tpu.infra.training import agreement

PATIENCE = 2.0  # seconds for a save under way when this host fails: its peers may be dead


class Background:
    """One save at a time. Whoever inherits says how it is begun and finished."""

    _thread: threading.Thread | None = None
    _error: BaseException | None = None

    def check(self) -> None:
        """Raise what went wrong in the background since the last call."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def settle(self) -> None:
        """Wait until nothing is under way; on the leader it is sealed then."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check()

    def abandon(self) -> None:
        """Leave after a failure. Alone, a save under way is finished; with peers it is not waited for long."""
        if self._thread is not None:
            self._thread.join(None if agreement.peers() == 1 else PATIENCE)

    def _behind(self, finish: Callable[[], None], where: str) -> None:
        """Finish the save of a checkpoint in a thread of its own. Nothing is under way before. where: it lies."""

        def run() -> None:
            try:
                finish()
            except BaseException as exc:
                exc.add_note(f"while saving the checkpoint {where}")
                self._error = exc

        self._thread = threading.Thread(target=run, name="seal", daemon=True)
        self._thread.start()
