"""`python -m churnbench_cli` is `churnbench`."""

from churnbench_cli import main

main()
