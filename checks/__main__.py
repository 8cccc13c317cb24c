from checks.cli import main

main()
