"""Builds the one C extension, which spawns without a fork. Without a compiler, `confined_exec.py` forks instead."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "rota.execute.keeper._confined_exec",
            ["src/rota/execute/keeper/_confined_exec.c"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            extra_compile_args=["-O2", "-Wall", "-Wextra", "-Werror=implicit-function-declaration"],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},  # one wheel for Python 3.11 and newer
)
