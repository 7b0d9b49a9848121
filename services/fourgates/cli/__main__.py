"""`python -m fourgates.cli` is `fourgates`."""

from fourgates.cli.main import main

if __name__ == "__main__":
    main()
