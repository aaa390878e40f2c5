"""How does a host read and write in a bucket? Through Cloud Storage's JSON API, with Python alone.

Loaded only where a job's output is in a bucket.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, urlencode

from prefect_tpu.infra import buckets
from prefect_tpu.infra.buckets import EMULATOR, BucketStorage, Item, Page
from prefect_tpu.infra.disk import BLOCK_BYTES, opened, replacing
from prefect_tpu.infra.host.cloud_calls import Call, Caller, CallFailed, Patience, blocks
from prefect_tpu.infra.host.cloud_parts import send_in_parts
from prefect_tpu.infra.host.cloud_token import MachineToken, NoToken
from prefect_tpu.infra.storage import BUCKET, changed_meanwhile, has_changed

_GOOGLE = "https://storage.googleapis.com"
_ADVICE = (
    "Give the service account of this host the role roles/storage.objectUser on the bucket; on GKE, Workload Identity"
    " binds the pod's service account to it."
)
RESUMED_FROM_BYTES = 8 * 2**20  # a file this long is sent in parts, each of which can be sent again
_ITEM = "name,size,updated,crc32c,md5Hash,metadata"


def open_bucket(url: str, patience: Patience | None = None) -> BucketStorage:
    """The storage in a folder of a bucket, with the rights of this machine."""
    bucket, folder = buckets.split(url)
    return BucketStorage(HostObjects(bucket, patience or Patience()), bucket, folder)


class HostObjects:
    """`Objects` of one bucket."""

    def __init__(self, bucket: str, patience: Patience) -> None:
        emulator = os.environ.get(EMULATOR, "").rstrip("/")
        self._bucket, self._base = bucket, emulator or _GOOGLE
        if "://" not in self._base:
            self._base = f"http://{self._base}"
        self._caller = Caller(NoToken() if emulator else MachineToken(), patience)

    def read(self, name: str) -> bytes | None:
        with self._told("read", name):
            try:
                return self._caller.ask(Call(method="GET", url=self._url(name, alt="media"))).body
            except CallFailed as exc:
                if exc.code == 404:
                    return None
                raise

    def write(self, name: str, data: bytes) -> None:
        with self._told("write", name):
            self._caller.ask(self._upload(name, data, {}))

    def create(self, name: str, data: bytes, writer: str) -> bool:
        with self._told("write", name):
            try:
                self._caller.ask(
                    self._upload(name, data, {"metadata": {buckets.WRITER: writer}}, ifGenerationMatch="0")
                )
            except CallFailed as exc:
                if exc.code == 412:
                    return False
                raise
        return True

    def look(self, name: str) -> Item | None:
        with self._told("read", name):
            try:
                found = self._caller.ask(Call(method="GET", url=self._url(name, fields=_ITEM)))
            except CallFailed as exc:
                if exc.code == 404:
                    return None
                raise
        return Item.from_json(found.json)

    def pages(self, prefix: str, *, is_deep: bool) -> Iterator[Page]:
        query = {"prefix": prefix, "fields": f"nextPageToken,prefixes,items({_ITEM})"}
        if not is_deep:
            query["delimiter"] = "/"
        while True:
            with self._told("list", prefix):
                found = json.loads(self._caller.ask(Call(method="GET", url=self._url(None, **query))).body)
            yield Page(
                items=tuple(Item.from_json(item) for item in found.get("items", [])),
                prefixes=tuple(found.get("prefixes", [])),
            )
            if "nextPageToken" not in found:
                return
            query["pageToken"] = found["nextPageToken"]

    def remove(self, name: str) -> None:
        with self._told("delete", name):
            try:
                self._caller.ask(Call(method="DELETE", url=self._url(name)))
            except CallFailed as exc:
                if exc.code != 404:
                    raise

    def send(self, name: str, file: Path, md5: str | None) -> None:
        about: dict[str, object] = {} if md5 is None else {"md5Hash": base64.b64encode(bytes.fromhex(md5)).decode()}
        with opened(file) as source, self._told("write", name):
            try:
                self._send(name, source, about)
            except CallFailed as exc:
                if exc.code == 400 and has_changed(file, md5):
                    raise changed_meanwhile(file, f"{BUCKET}{self._bucket}/{name}") from exc
                raise

    def fetch(self, name: str, file: Path) -> bool:
        with self._told("read", name):
            try:
                self._caller.persevere(lambda: self._fetch(name, file))
            except CallFailed as exc:
                if exc.code == 404:
                    return False
                raise
        return True

    def _send(self, name: str, source: BinaryIO, about: dict[str, object]) -> None:
        size = os.fstat(source.fileno()).st_size
        if size < RESUMED_FROM_BYTES:
            self._caller.ask(self._upload(name, source.read(), about))
        else:
            self._caller.persevere(lambda: send_in_parts(self._caller, self._begun(name, about), source, size))

    def _fetch(self, name: str, file: Path) -> None:
        """What arrives short or damaged is asked for again."""
        digest, size = hashlib.md5(usedforsecurity=False), 0
        with (
            self._caller.open(Call(method="GET", url=self._url(name, alt="media"))) as answer,
            replacing(file) as target,
        ):
            for block in blocks(answer, BLOCK_BYTES):
                target.write(block)
                digest.update(block)
                size += len(block)
            told = _md5_of(answer.headers.get_all("X-Goog-Hash") or [])
            if size != int(answer.headers["Content-Length"]) or told not in (None, digest.hexdigest()):
                raise CallFailed(0, f"of its {answer.headers['Content-Length']} bytes {size} arrived, or others")

    def _begun(self, name: str, about: dict[str, object]) -> str:
        """The address of a new resumable upload."""
        call = Call(
            method="POST",
            url=self._upload_url("resumable"),
            headers={"Content-Type": "application/json; charset=UTF-8"},
            body=json.dumps({"name": name, **about}).encode(),
        )
        return self._caller.ask(call).headers["Location"]

    def _upload(self, name: str, data: bytes, about: dict[str, object], **conditions: str) -> Call:
        """Name, metadata and bytes in one request."""
        boundary = secrets.token_hex(16)
        facts = json.dumps({"name": name, **about})
        first = f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{facts}"
        second = f"\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n"
        return Call(
            method="POST",
            url=self._upload_url("multipart", **conditions),
            headers={"Content-Type": f"multipart/related; boundary={boundary}"},
            body=b"".join((first.encode(), second.encode(), data, f"\r\n--{boundary}--".encode())),
        )

    def _url(self, name: str | None, **query: str) -> str:
        place = f"{self._base}/storage/v1/b/{quote(self._bucket, safe='')}/o"
        whole = place if name is None else f"{place}/{quote(name, safe='')}"
        return f"{whole}?{urlencode(query)}" if query else whole

    def _upload_url(self, kind: str, **conditions: str) -> str:
        query = urlencode({"uploadType": kind, "fields": _ITEM, **conditions})
        return f"{self._base}/upload/storage/v1/b/{quote(self._bucket, safe='')}/o?{query}"

    @contextmanager
    def _told(self, verb: str, name: str) -> Iterator[None]:
        """What Google refuses becomes an error that says what to do."""
        try:
            yield
        except CallFailed as exc:
            url = f"{BUCKET}{self._bucket}/{name}"
            raise buckets.refusal(verb, url, code=exc.code, said=exc.said, advice=_ADVICE) from exc


def _md5_of(hashes: list[str]) -> str | None:
    """In hexadecimal digits, from headers such as `crc32c=…,md5=…`."""
    for told in ",".join(hashes).split(","):
        kind, _, value = told.strip().partition("=")
        if kind == "md5":
            return base64.b64decode(value).hex()
    return None
