from benchmarks.lab_runs.cli import main

main()
