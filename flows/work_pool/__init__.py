"""The work pool `tpu-slice`: any Prefect flow on a slice. Importing it registers the worker's type with Prefect."""

from prefect_tpu.flows.work_pool.worker import TpuSliceWorker

__all__ = ["TpuSliceWorker"]
