#!/usr/bin/env python3
"""Prints the schemas of the operations that jarvis knows, as the installed PyTorch has them.

    python3 tools/replay_schemas.py crates/report/src/replay/schemas.txt > new.txt

Reads the operations' names off the present table; lines of operations that this PyTorch lacks stay as they are. Further
names follow the table's path. Overloads that no recorded call can match (named dimensions, strings) are left out.
"""

import re
import sys

import torch


def schemas(name):
    space, _, op = name.partition("::")
    try:
        packet = getattr(getattr(torch.ops, space), op)
        found = [str(getattr(packet, overload)._schema) for overload in packet.overloads()]
    except (AttributeError, RuntimeError):
        return []
    odd = re.compile(r"Dimname|str dim\b|str\[\]|\bt\[\]|Any\b")
    return sorted(text for text in found if "Tensor" in text and not odd.search(text))


def main():
    with open(sys.argv[1]) as file:
        lines = [line.rstrip("\n") for line in file]
    kept = {}
    for line in lines:
        if line and not line.startswith("#"):
            kept.setdefault(re.split(r"[.(]", line)[0], []).append(line)
    names = sorted(set(kept) | set(sys.argv[2:]))
    version = torch.__version__.split("+")[0]
    print("# Schemas of operations, as PyTorch %s prints them; made by tools/replay_schemas.py." % version)
    for name in names:
        for text in schemas(name) or kept.get(name, []):
            print(text)


if __name__ == "__main__":
    main()
