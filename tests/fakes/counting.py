"""A storage that counts what it is asked: a bucket bills every question, and answers each in its own time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from prefect_tpu.infra.storage import Facts, Storage


class Counting:
    """`Storage` in front of another one. `asked` has each question as `verb name`."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.asked: Counter[str] = Counter()

    def questions(self) -> list[str]:
        """Since the last time this was asked, sorted."""
        asked, self.asked = self.asked, Counter()
        return sorted(asked.elements())

    @property
    def url(self) -> str:
        return self._storage.url

    def get(self, name: str) -> bytes | None:
        self.asked[f"get {name}"] += 1
        return self._storage.get(name)

    def put(self, name: str, data: bytes) -> None:
        self.asked[f"put {name}"] += 1
        self._storage.put(name, data)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        self.asked[f"put_if_absent {name}"] += 1
        return self._storage.put_if_absent(name, data)

    def put_file(self, name: str, file: Path, md5: str | None = None) -> None:
        self.asked[f"put_file {name}"] += 1
        self._storage.put_file(name, file, md5)

    def get_file(self, name: str, file: Path) -> bool:
        self.asked[f"get_file {name}"] += 1
        return self._storage.get_file(name, file)

    def children(self, folder: str) -> list[str]:
        self.asked[f"children {folder}"] += 1
        return self._storage.children(folder)

    def list(self, folder: str) -> list[str]:
        self.asked[f"list {folder}"] += 1
        return self._storage.list(folder)

    def facts(self, folder: str) -> dict[str, Facts]:
        self.asked[f"facts {folder}"] += 1
        return self._storage.facts(folder)

    def changed(self, name: str) -> float | None:
        self.asked[f"changed {name}"] += 1
        return self._storage.changed(name)

    def checksum(self, name: str) -> str:
        self.asked[f"checksum {name}"] += 1
        return self._storage.checksum(name)

    def delete(self, name: str) -> None:
        self.asked[f"delete {name}"] += 1
        self._storage.delete(name)

    def delete_folder(self, folder: str) -> None:
        self.asked[f"delete_folder {folder}"] += 1
        self._storage.delete_folder(folder)

    def inside(self, folder: str) -> Storage:
        return self._storage.inside(folder)

    def where(self, name: str) -> str:
        return self._storage.where(name)
