"""`python -m boundby` is `boundby`."""

from boundby.cli.main import main

if __name__ == "__main__":
    main()
