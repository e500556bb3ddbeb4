"""Runs on a node: keeps every n-th pixel of every n-th line of a binary PPM picture (`P6`). Needs only Python."""

import sys

source, target, step = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(source, "rb") as file:
    kind, width, height, most = file.readline(), *map(int, file.readline().split()), file.readline()
    lines = [file.read(3 * width) for _ in range(height)]
if kind != b"P6\n":
    raise SystemExit(f"{source} is not a binary PPM picture")
small = [b"".join(line[3 * x : 3 * x + 3] for x in range(0, width, step)) for line in lines[::step]]
with open(target, "wb") as file:
    file.write(b"P6\n%d %d\n%s" % (len(small[0]) // 3, len(small), most) + b"".join(small))
print(f"{width}x{height} to {len(small[0]) // 3}x{len(small)}")
