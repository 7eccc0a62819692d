"""The reference's C surface, whole: a program that uses every function links, and a binding made
from the header alone drives the library."""

import ctypes
import re
import subprocess

from headers import functions, without_comments

# Facts of the reference's header: its functions, by the type they belong to.
FUNCTIONS = {
    "FMSystemLanguageModel": """
        GetDefault Create IsAvailable GetContextSize TokenCountForPrompt TokenCountForInstructions
        TokenCountForTools TokenCountForSchema TokenCountForTranscript""",
    "FMLanguageModelSession": """
        CreateDefault CreateFromSystemLanguageModel CreateFromTranscript IsResponding Reset Respond
        RespondWithSchema RespondWithSchemaFromJSON StreamResponse ResponseStreamIterate
        GetTranscriptJSONString""",
    "FMTranscript": "CreateFromJSONString",
    "FMComposedPrompt": "Initialize AddText AddImage AddIdentifiedImage AddAttachment",
    "FMGenerationSchema": "Create AddProperty AddReferenceSchema GetJSONString",
    "FMGenerationSchemaProperty": """
        Create AddAnyOfGuide AddCountGuide AddMaximumGuide AddMinimumGuide AddMinItemsGuide
        AddMaxItemsGuide AddRangeGuide AddRegex""",
    "FMGeneratedContent": "CreateFromJSON GetJSONString GetPropertyValue IsComplete",
    "FMBridgedTool": "Create FinishCall",
    "FM": "TaskCancel Retain Release FreeString",
}
NAMES = {owner + name for owner, names in FUNCTIONS.items() for name in names.split()}

TYPES = {
    "void": None,
    "int": ctypes.c_int,
    "unsigned int": ctypes.c_uint,
    "bool": ctypes.c_bool,
    "double": ctypes.c_double,
    "size_t": ctypes.c_size_t,
}


def test_all_of_them_are_there(root):
    assert len(NAMES) == 49
    assert functions(root / "include/FoundationModels.h") == NAMES


def test_each_of_them_is_called_by_a_test(root):
    tests = "".join(path.read_text() for path in (root / "Tests/c").glob("*.[ch]"))
    assert {name for name in NAMES if not re.search(rf"\b{name}\(", tests)} == set()


def test_a_program_that_uses_all_of_them_links_and_runs(root, library, tmp_path):
    source = tmp_path / "all.c"
    table = "".join(f"  (function)&{name},\n" for name in sorted(NAMES))
    source.write_text(
        "#include <FoundationModels.h>\n#include <stdio.h>\ntypedef void (*function)(void);\n"
        f"static function table[] = {{\n{table}}};\n"
        "int main(void) {\n  size_t there = 0;\n"
        "  for (size_t i = 0; i < sizeof table / sizeof *table; i++) there += table[i] != NULL;\n"
        '  printf("%zu\\n", there);\n  return 0;\n}\n'
    )
    program = tmp_path / "all"
    subprocess.run(
        ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{root / 'include'}", source]
        + ["-o", program, library, f"-Wl,-rpath,{library.parent}"],
        check=True,
    )
    assert subprocess.run([program], check=True, capture_output=True).stdout == b"49\n"


def ctype(declaration: str):
    """The ctypes type of a parameter or result as the header declares it."""
    text = re.sub(r"\b(_Nonnull|_Nullable|const)\b", " ", declaration).strip()
    if "(*" in text:
        return ctypes.c_void_p
    name = re.sub(r"\s*\b\w+$", "", text) if re.search(r"[\w*]\s+\*?\w+$", text) else text
    name = " ".join(name.replace("*", " * ").split())
    if name == "char *":
        return ctypes.c_char_p
    if name in TYPES:
        return TYPES[name]
    # Enums are unsigned ints to the C ABI; everything else is a reference or a pointer.
    enums = ("UseCase", "Guardrails", "Reason", "Error")
    return ctypes.c_uint if name.endswith(enums) else ctypes.c_void_p


def bind(header, library):
    """A binding, made of nothing but the header's text."""
    text = without_comments(header.read_text())
    text = re.sub(r"\btypedef\b[^;{]*(\{[^}]*\})?[^;]*;", " ", text)
    lib = ctypes.CDLL(str(library))
    for match in re.finditer(r"([\w\s*]+?)\b(FM\w+)\s*\(((?:[^()]|\([^()]*\))*)\)\s*;", text):
        result, name, parameters = match.groups()
        function = getattr(lib, name)
        function.restype = ctype(result.strip() + " x")
        parts = re.split(r",(?![^()]*\))", parameters)
        function.argtypes = [ctype(" ".join(p.split())) for p in parts if p.strip() != "void"]
    return lib


def test_a_binding_made_from_the_header_drives_the_library(root, library):
    lib = bind(root / "include/FoundationModels.h", library)
    schema = lib.FMGenerationSchemaCreate(b"Pet", b"A pet.")
    name = lib.FMGenerationSchemaPropertyCreate(b"name", None, b"string", False)
    lib.FMGenerationSchemaAddProperty(schema, name)
    text = lib.FMGenerationSchemaGetJSONString(schema, None, None)
    assert b'"title":"Pet"' in text.replace(b'": ', b'":')
    called = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint)(lambda content, call: None)
    tool = lib.FMBridgedToolCreate(
        b"pets", b"Tells pets.", schema, ctypes.cast(called, ctypes.c_void_p), None, None
    )
    assert tool
    tools = (ctypes.c_void_p * 1)(tool)
    session = lib.FMLanguageModelSessionCreateFromSystemLanguageModel(
        None, b"Be brief.", ctypes.cast(tools, ctypes.c_void_p), 1
    )
    assert not lib.FMLanguageModelSessionIsResponding(session)
    transcript = lib.FMLanguageModelSessionGetTranscriptJSONString(session, None, None)
    assert b"Be brief." in transcript
    assert b"Tells pets." in transcript
    again = lib.FMTranscriptCreateFromJSONString(transcript, None, None)
    assert lib.FMLanguageModelSessionGetTranscriptJSONString(again, None, None) == transcript
    code = ctypes.c_int(0)
    content = lib.FMGeneratedContentCreateFromJSON(b"{", ctypes.addressof(code), None)
    assert (content, code.value) == (None, 255) or lib.FMGeneratedContentIsComplete(
        content
    ) is False
    for reference in (again, session, tool, name, schema):
        lib.FMRelease(reference)
