"""The commands of `prefect-tpu`: `new_job`, `jobs` and `about` declare them, each other file answers one question."""
