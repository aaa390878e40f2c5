"""One Prefect task per file; each parses, calls `infra`, logs and returns."""
