"""In all three processes. Owns the formats that pass between them: packets, calls and replies, specs, progress, masks
for secrets. It never imports anything but the standard library, msgspec and `rota.model`.
"""
