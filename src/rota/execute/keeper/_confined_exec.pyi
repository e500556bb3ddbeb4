def spawn_program(
    program: bytes,
    argv: list[bytes],
    env: list[bytes],
    descriptors: list[tuple[int, int]],
    files: list[bytes],
    words: list[bytes],
    limits: list[tuple[int, int]],
    group: int,
    view: int,
    user: int,
) -> tuple[int, int, int]: ...
