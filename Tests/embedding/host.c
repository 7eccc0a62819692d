/*
 * A C program that embeds CPython and uses the library from both sides at once: it streams an answer
 * itself while Python streams others, ends the interpreter while its own stream still runs, and exits.
 *
 *   host URL FOLDER    FOLDER holds the package openfm, which loads the library that this is linked to
 *
 * Prints "c: TEXT" and "python: TEXT".
 */
#include <Python.h>
#include <OpenFM.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char answer[4096];
static volatile int status = -1;

static void on_snapshot(int code, const char *text, size_t length, void *user_info) {
  (void)user_info;
  if (code != 0 || text == NULL) {
    status = code;
    return;
  }
  if (length < sizeof answer) {
    memcpy(answer, text, length);
    answer[length] = 0;
  }
}

static const char *const program =
    "import asyncio, sys\n"
    "import openfm as fm\n"
    "async def main(url):\n"
    "    model = fm.ChatCompletionsLanguageModel(url, 'scenario:slow-stream?chunks=5&delay=0.01')\n"
    "    async def one():\n"
    "        text = ''\n"
    "        async for text in fm.LanguageModelSession(model=model).stream_response('Hello'):\n"
    "            pass\n"
    "        return text\n"
    "    for text in set(await asyncio.gather(one(), one())):\n"
    "        print('python:', text, flush=True)\n"
    "asyncio.run(main(sys.argv[1]))\n";

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  FMSystemLanguageModelRef model = FMLanguageModelCreateChatCompletions(
      argv[1], "scenario:slow-stream?chunks=5&delay=0.05", NULL, NULL, NULL, NULL);
  if (!model) {
    fprintf(stderr, "%s\n", FMLastErrorDescription());
    return 3;
  }
  FMLanguageModelSessionRef session =
      FMLanguageModelSessionCreateFromSystemLanguageModel(model, NULL, NULL, 0);
  FMComposedPromptRef prompt = FMComposedPromptInitialize();
  FMComposedPromptAddText(prompt, "Hello");
  FMLanguageModelSessionResponseStreamRef stream =
      FMLanguageModelSessionStreamResponse(session, prompt, NULL);
  FMLanguageModelSessionResponseStreamIterate(stream, NULL, on_snapshot);

  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  PyConfig_SetBytesArgv(&config, argc, argv);
  config.parse_argv = 0;
  wchar_t *folder = Py_DecodeLocale(argv[2], NULL);
  if (PyStatus_Exception(Py_InitializeFromConfig(&config))) return 4;
  PyConfig_Clear(&config);
  PyObject *path = PySys_GetObject("path");
  PyObject *entry = PyUnicode_FromWideChar(folder, -1);
  PyList_Insert(path, 0, entry);
  Py_DECREF(entry);
  PyMem_RawFree(folder);
  int failed = PyRun_SimpleString(program);
  if (Py_FinalizeEx() != 0 || failed) return 5;

  /* The package shut the library down with its interpreter: the stream here has ended too. */
  for (int i = 0; i < 10000 && status < 0; i++) usleep(1000);
  printf("c: %s (%s)\n", answer, status < 0 ? "still running" : FMStatusName(status));
  FMRelease(stream);
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(model);
  return status < 0 ? 6 : 0;
}
