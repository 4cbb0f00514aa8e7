#!/usr/bin/env python3
"""Replays the operation of this package: `python3 replay.py --help`."""

import sys

from batched_replay import main

if __name__ == "__main__":
    sys.exit(main())
