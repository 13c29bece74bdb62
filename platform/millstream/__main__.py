"""`python -m millstream`: the command line."""

from millstream.cli import main

if __name__ == "__main__":
    main()
