"""One Prefect task a file: parse, call `infra`, log, return. They carry no Prefect retries."""
