"""The one part that is not Python: births without a fork. Where no compiler is, `newborn.py` forks instead."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "rota.execute._newborn",
            ["src/rota/execute/_newborn.c"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            extra_compile_args=["-O2", "-Wall", "-Wextra", "-Werror=implicit-function-declaration"],
            py_limited_api=True,
            optional=True,
        )
    ]
)
