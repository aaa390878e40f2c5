"""The commands of `prefect-tpu`, a file per group; `prefect_tpu.flows.cli` is their table of contents."""
