"""Speed and latency of Millstream, alone and compared with other tools; `run.py` is the command."""
