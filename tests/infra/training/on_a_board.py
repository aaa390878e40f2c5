"""A board of one process, for hosts that are threads or stand beside each other."""

from __future__ import annotations

import threading


class Words:
    """What all hosts have left."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}
        self.changed = threading.Condition()

    def of(self, host: int, hosts: int) -> OneBoard:
        return OneBoard(self, host, hosts)


class OneBoard:
    ends_with_leader = False

    def __init__(self, words: Words, host: int, hosts: int) -> None:
        self._words, self.host, self.hosts = words, host, hosts

    def put(self, name: str, text: str) -> None:
        with self._words.changed:
            self._words.told[name] = text
            self._words.changed.notify_all()

    def get(self, name: str) -> str | None:
        return self._words.told.get(name)

    def below(self, folder: str) -> dict[str, str]:
        begin = f"{folder}/"
        return {n.removeprefix(begin): t for n, t in self._words.told.items() if n.startswith(begin)}

    def wait(self, name: str, seconds: float) -> str | None:
        with self._words.changed:
            self._words.changed.wait_for(lambda: name in self._words.told, seconds)
        return self._words.told.get(name)
