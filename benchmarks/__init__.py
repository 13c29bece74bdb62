"""Speed and latency of Millstream, alone and beside other tools; `run.py` is the command."""
