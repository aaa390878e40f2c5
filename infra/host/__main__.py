"""`python -m prefect_tpu.infra.host PLAN HOST`: run one host of an attempt."""

import sys

from prefect_tpu.infra.host.runner import main

sys.exit(main(sys.argv[1:]))
