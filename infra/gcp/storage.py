"""How does the launcher read and write in a bucket? By Google's client, with Application Default Credentials."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path

import google.cloud.storage as google_storage
from google.api_core.exceptions import BadRequest, GoogleAPICallError, NotFound, PreconditionFailed, RetryError
from google.api_core.retry import Retry
from google.auth.exceptions import GoogleAuthError
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
from google.cloud.storage.retry import DEFAULT_RETRY
from requests import RequestException
from requests.adapters import HTTPAdapter

from prefect_tpu.infra import buckets
from prefect_tpu.infra.buckets import EMULATOR, BucketStorage, Item, Page
from prefect_tpu.infra.disk import opened, replacing
from prefect_tpu.infra.errors import PlatformError
from prefect_tpu.infra.storage import BUCKET, changed_meanwhile, has_changed

_ADVICE = (
    "Log in (gcloud auth application-default login), or let GOOGLE_APPLICATION_CREDENTIALS name a service account's"
    " key; whoever it is needs the role roles/storage.objectUser on the bucket."
)
# Every request here is safe to send twice. The pauses stay short: one that did not fit into what is left of the time
# would end it early, and a bucket that was away for a minute is there again.
_RETRY = DEFAULT_RETRY.with_timeout(90.0).with_delay(maximum=8.0)
_TIMEOUT = 60.0
_CONNECTIONS = 64
# Google's client asks for the bucket each time an object is not there, in a thread of its own, to name traces that
# nobody takes; whoever may use the bucket's objects alone is refused that. Versions before 3.11 do not know the word.
_NO_TRACES = "DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA"
_FIELDS = "nextPageToken,prefixes,items(name,size,updated,crc32c,md5Hash,metadata)"


def open_bucket(url: str, retry: Retry = _RETRY) -> BucketStorage:
    """The storage in a folder of a bucket, with the rights of whoever is logged in."""
    bucket, folder = buckets.split(url)
    with _told("open", url):
        client = _client(os.environ.get(EMULATOR, ""))
    return BucketStorage(LauncherObjects(client.bucket(bucket), retry), bucket, folder)


@cache
def _client(emulator: str) -> google_storage.Client:
    """One per process, for its connections and its token; another one where the emulator changes."""
    os.environ.setdefault(_NO_TRACES, "true")
    client = google_storage.Client(project=None)  # a project is needed for making buckets only
    for scheme in ("https://", "http://"):  # as many as there are threads that ask: by default ten stay open
        client._http.mount(scheme, HTTPAdapter(pool_connections=_CONNECTIONS, pool_maxsize=_CONNECTIONS))
    return client


class _Absent(Exception):
    """Nothing has that name, and no file is left for it."""


class LauncherObjects:
    """`Objects` of one bucket."""

    def __init__(self, bucket: google_storage.Bucket, retry: Retry) -> None:
        self._bucket, self._again = bucket, {"timeout": _TIMEOUT, "retry": retry}

    def read(self, name: str) -> bytes | None:
        with self._told("read", name):
            try:
                return bytes(self._bucket.blob(name).download_as_bytes(**self._again))
            except NotFound:
                return None

    def write(self, name: str, data: bytes) -> None:
        with self._told("write", name):
            self._bucket.blob(name).upload_from_string(data, **self._again)

    def create(self, name: str, data: bytes, writer: str) -> bool:
        blob = self._bucket.blob(name)
        blob.metadata = {buckets.WRITER: writer}
        with self._told("write", name):
            try:
                blob.upload_from_string(data, if_generation_match=0, **self._again)
            except PreconditionFailed:
                return False
        return True

    def send(self, name: str, file: Path, md5: str | None) -> None:
        blob = self._bucket.blob(name)
        if md5 is not None:
            blob.md5_hash = base64.b64encode(bytes.fromhex(md5)).decode()
        with opened(file) as source, self._told("write", name):
            try:
                blob.upload_from_file(source, checksum="md5", **self._again)
            except (BadRequest, DataCorruption) as exc:
                if has_changed(file, md5):
                    raise changed_meanwhile(file, self._url(name)) from exc
                raise

    def fetch(self, name: str, file: Path) -> bool:
        # Told of inside: what the network raises is an OSError too, and would be taken for the disk's.
        with suppress(_Absent), replacing(file) as target, self._told("read", name):
            try:
                self._bucket.blob(name).download_to_file(target, **self._again)
            except NotFound as exc:
                raise _Absent from exc
            return True
        return False

    def look(self, name: str) -> Item | None:
        with self._told("read", name):
            blob = self._bucket.get_blob(name, **self._again)
        return None if blob is None else _item(blob)

    def pages(self, prefix: str, *, is_deep: bool) -> Iterator[Page]:
        with self._told("list", prefix):
            found = self._bucket.list_blobs(
                prefix=prefix, delimiter=None if is_deep else "/", fields=_FIELDS, **self._again
            )
            for page in found.pages:
                yield Page(items=tuple(map(_item, page)), prefixes=tuple(page.prefixes))

    def remove(self, name: str) -> None:
        with self._told("delete", name), suppress(NotFound):
            self._bucket.delete_blob(name, **self._again)

    def _url(self, name: str) -> str:
        return f"{BUCKET}{self._bucket.name}/{name}"

    def _told(self, verb: str, name: str) -> AbstractContextManager[None]:
        return _told(verb, self._url(name))


def _item(blob: google_storage.Blob) -> Item:
    return Item(
        name=blob.name,
        bytes=blob.size or 0,
        changed=blob.updated.timestamp(),
        crc32c=base64.b64decode(blob.crc32c).hex(),
        md5=base64.b64decode(blob.md5_hash).hex() if blob.md5_hash else None,
        writer=(blob.metadata or {}).get(buckets.WRITER),
    )


@contextmanager
def _told(verb: str, url: str) -> Iterator[None]:
    """What Google refuses becomes an error that says what to do."""
    try:
        yield
    except GoogleAuthError as exc:
        raise PlatformError(f"Could not {verb} {url}: Google does not know who is asking ({exc}). {_ADVICE}") from exc
    except GoogleAPICallError as exc:
        raise buckets.refusal(verb, url, code=int(exc.code or 0), said=exc.message, advice=_ADVICE) from exc
    except (RetryError, RequestException, DataCorruption, InvalidResponse) as exc:
        raise buckets.refusal(verb, url, code=0, said=str(exc), advice=_ADVICE) from exc
