"""What does a runner do in storage while its program runs? In a thread of its own, one thing after the other.

A storage that hangs must hold up no notice and no deadline, and one that refuses must end no program: what it did not
take is brought again the next time.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping

from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.host.patience import ERRAND_SECONDS

LOOK_SECONDS = 0.05


class Errands:
    """Runs errands by turns until it is ended.

    errands: what is done, by name. Each is called with the host's age and looks itself whether it is due.
    questions: what is asked, by name, until the answer is yes; then nothing more is asked.
    """

    def __init__(
        self,
        age: Callable[[], float],
        errands: tuple[Callable[[float], None], ...],
        questions: Mapping[str, Callable[[float], bool]],
    ) -> None:
        self._age, self._errands, self._questions = age, errands, questions
        self._over = threading.Event()
        self._told = ""
        self.answer: str | None = None  # the name of the question that was answered with yes
        self._thread = threading.Thread(target=self._run, name="errands", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self, left: Callable[[], float] | None, at_least: float = ERRAND_SECONDS) -> bool:
        """Whether nothing is under way any more; one that hangs is left behind when no time is left for it.

        Args:
            left: how many seconds are; a notice that comes meanwhile may make them fewer. None: it is waited for.
            at_least: seconds, however little time is left.
        """
        self._over.set()
        begun = time.monotonic()
        while self._thread.is_alive() and (left is None or left() > 0 or time.monotonic() - begun < at_least):
            self._thread.join(LOOK_SECONDS)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            for errand in self._errands:
                self._do(errand)
            if self.answer is None:
                self.answer = next((name for name, ask in self._questions.items() if self._do(ask)), None)

    def _do(self, act: Callable[[float], bool | None]) -> bool:
        try:
            return bool(act(self._age()))
        except (PlatformError, OSError) as exc:  # also what the scratch folder's disk refuses
            self._tell(f"{str(exc).rstrip('.')}.")
            return False

    def _tell(self, why: str) -> None:
        """Each reason once: an errand comes by every second."""
        if why != self._told:
            self._told = why
            sys.stderr.write(f"prefect-tpu: {why} The program runs on, and it is tried again.\n")
