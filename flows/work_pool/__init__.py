"""The work pool `tpu-slice`: any Prefect flow on a slice. Importing it registers the worker's type with Prefect."""
