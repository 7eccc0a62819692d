"""The headers compile alone, in either order, in C and C++, without one warning."""

import shutil
import subprocess

import pytest
from headers import functions

INCLUDES = [["FoundationModels.h"], ["OpenFM.h"], ["FoundationModels.h", "OpenFM.h"]]
COMPILERS = [
    ("gcc", "c99"),
    ("gcc", "c11"),
    ("clang", "c99"),
    ("clang", "c11"),
    ("g++", "c++17"),
    ("clang++", "c++17"),
]


@pytest.mark.parametrize(("compiler", "standard"), COMPILERS)
@pytest.mark.parametrize("includes", INCLUDES, ids=lambda i: "+".join(i))
def test_compiles_without_warnings(root, tmp_path, compiler, standard, includes):
    assert shutil.which(compiler), f"{compiler} is missing; scripts/setup installs it"
    source = tmp_path / ("use.cpp" if "+" in compiler else "use.c")
    source.write_text("".join(f"#include <{name}>\n" for name in includes) + "int main(void);\n")
    flags = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", f"-std={standard}"]
    if compiler.startswith("clang"):
        # Nullability marks are an extension, and this is what they are for.
        flags += ["-Wno-nullability-extension"]
    done = subprocess.run(
        [compiler, *flags, "-I", root / "include", source], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_functions_have_c_linkage_in_cpp(root, tmp_path, compiler):
    """The symbols a C++ program asks for are the plain names."""
    names = sorted(
        functions(root / "include/FoundationModels.h") | functions(root / "include/OpenFM.h")
    )
    source = tmp_path / "use.cpp"
    table = "".join(f"  reinterpret_cast<void *>(&{name}),\n" for name in names)
    source.write_text(
        f"#include <OpenFM.h>\nextern void *table[];\nvoid *table[] = {{\n{table}}};\n"
    )
    subprocess.run(
        [compiler, "-std=c++17", "-I", root / "include", "-c", source, "-o", tmp_path / "use.o"],
        check=True,
    )
    listed = subprocess.run(
        ["nm", "-u", tmp_path / "use.o"], check=True, capture_output=True, text=True
    ).stdout
    assert [n for n in names if n not in listed.split()] == []
