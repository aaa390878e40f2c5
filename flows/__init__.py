"""What a user runs. Import from the files: `prefect_tpu.flows.train`."""
