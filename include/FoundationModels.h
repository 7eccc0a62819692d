/*
 * FoundationModels.h - the Foundation Models programming model in C: models, sessions, composed
 * prompts of text and pictures, responses and streams.
 *
 * Source-compatible with the reference header of the same name; everything that OpenFM adds is in
 * OpenFM.h. Conventions that hold for every function:
 *
 *   - A reference is an opaque value. A function that returns one gives the caller ownership (+1);
 *     release it with FMRelease. Functions borrow the references they are given.
 *   - Strings in are NUL-terminated UTF-8 and are copied before the call returns.
 *   - A `char *` result, and the text written to `outErrorDescription`, belongs to the caller and is
 *     freed with FMFreeString. `outErrorCode` and `outErrorDescription` may be NULL and are written
 *     only on failure.
 *   - Callbacks run on a worker thread of the library, never on the caller's, and may run before the
 *     call that started them has returned. Pointers they are given live until they return.
 *     `userInfo` is passed through untouched and must outlive the last callback.
 *   - A NULL, a released or a foreign reference, a string that is no UTF-8, and a call in a child of
 *     fork() are errors, never a crash: see FMLastErrorCode in OpenFM.h. (In such a child there are no
 *     worker threads: a callback that is due comes before the call returns, with status 170.)
 */
#ifndef FOUNDATION_MODELS_H
#define FOUNDATION_MODELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(__clang__)
#ifndef _Nonnull
#define _Nonnull
#endif
#ifndef _Nullable
#define _Nullable
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef const void *FMSystemLanguageModelRef;
typedef const void *FMLanguageModelSessionRef;
typedef const void *FMLanguageModelSessionResponseStreamRef;
typedef const void *FMComposedPromptRef;
typedef const void *FMGeneratedContentRef;
typedef const void *FMBridgedToolRef;
typedef const void *FMTaskRef;

typedef enum FMSystemLanguageModelUseCase {
  FMSystemLanguageModelUseCaseGeneral = 0,
  FMSystemLanguageModelUseCaseContentTagging = 1
} FMSystemLanguageModelUseCase;

typedef enum FMSystemLanguageModelGuardrails {
  FMSystemLanguageModelGuardrailsDefault = 0,
  FMSystemLanguageModelGuardrailsPermissiveContentTransformations = 1
} FMSystemLanguageModelGuardrails;

typedef enum FMSystemLanguageModelUnavailableReason {
  FMSystemLanguageModelUnavailableReasonAppleIntelligenceNotEnabled = 0,
  FMSystemLanguageModelUnavailableReasonDeviceNotEligible = 1,
  FMSystemLanguageModelUnavailableReasonModelNotReady = 2,
  FMSystemLanguageModelUnavailableReasonUnknown = 0xFF
} FMSystemLanguageModelUnavailableReason;

typedef enum FMComposedPromptAddImageError {
  FMComposedPromptAddImageErrorNone = 0,
  FMComposedPromptAddImageErrorUnsupportedOS = 1,
  FMComposedPromptAddImageErrorUnsupportedSDK = 2,
  FMComposedPromptAddImageErrorUnknown = 3
} FMComposedPromptAddImageError;

/*
 * Called exactly once. `status` 0: `content` is the whole answer, `length` bytes without the NUL.
 * Any other status (OpenFM.h lists them): `content` is a description of the failure.
 */
typedef void (*FMLanguageModelSessionResponseCallback)(int status, const char *_Nullable content,
                                                       size_t length, void *_Nullable userInfo);

/*
 * Called exactly once. The content is owned by the receiver (+1) whatever the status; on failure it
 * is a string that holds the description.
 */
typedef void (*FMLanguageModelSessionStructuredResponseCallback)(
    int status, FMGeneratedContentRef _Nullable content, void *_Nullable userInfo);

/* ---- Models ------------------------------------------------------------------------------- */

/* The machine's default model (see OpenFM.h, "How the default model is found"). Never NULL; +1. */
FMSystemLanguageModelRef _Nonnull FMSystemLanguageModelGetDefault(void);

/*
 * The default model for a use case. An unknown use case prints a warning and counts as general, an
 * unknown guardrail as the default. Never NULL; +1.
 */
FMSystemLanguageModelRef _Nonnull FMSystemLanguageModelCreate(
    FMSystemLanguageModelUseCase useCase, FMSystemLanguageModelGuardrails guardrails);

/*
 * Whether a request has a chance: the server is configured, or engine and model file are there. It
 * starts nothing and connects to nothing. `unavailableReason` (may be NULL) is written only when the
 * result is false; FMLanguageModelCopyUnavailableExplanation gives the sentence.
 */
bool FMSystemLanguageModelIsAvailable(
    FMSystemLanguageModelRef _Nonnull model,
    FMSystemLanguageModelUnavailableReason *_Nullable unavailableReason);

/*
 * Tokens of context one request has; 0 = unknown. For a server it is asked for once, which can take
 * up to 5 seconds; for the embedded engine nothing is started.
 */
int FMSystemLanguageModelGetContextSize(FMSystemLanguageModelRef _Nonnull model);

/* ---- Sessions ----------------------------------------------------------------------------- */

/* A session with the default model, no instructions. +1. */
FMLanguageModelSessionRef _Nonnull FMLanguageModelSessionCreateDefault(void);

/*
 * A session with a model (NULL = the default; any model of OpenFM.h serves) and instructions (NULL
 * or "" = none). The session retains the model. `tools` must be NULL and `toolCount` 0 in this
 * version. +1; NULL when an argument is not usable.
 */
FMLanguageModelSessionRef _Nonnull FMLanguageModelSessionCreateFromSystemLanguageModel(
    FMSystemLanguageModelRef _Nullable model, const char *_Nullable instructions,
    FMBridgedToolRef _Nonnull *_Nullable tools, int toolCount);

/* True from the call that starts a request until its last callback is due. */
bool FMLanguageModelSessionIsResponding(FMLanguageModelSessionRef _Nonnull session);

/* Kept for the reference's sake; does nothing. The transcript is not cleared. */
void FMLanguageModelSessionReset(FMLanguageModelSessionRef _Nonnull session);

/*
 * Answers a prompt. The prompt's content is captured before the call returns. `optionsJSON` (NULL
 * or "" = none):
 *   {"sampling": {"mode": "greedy"|"random", "top_k": int, "top_p": number, "seed": uint64},
 *    "temperature": number, "maximum_response_tokens": int}
 * Returns a task (+1) for FMTaskCancel; releasing it does not cancel.
 */
FMTaskRef _Nonnull FMLanguageModelSessionRespond(
    FMLanguageModelSessionRef _Nonnull session, FMComposedPromptRef _Nonnull prompt,
    const char *_Nullable optionsJSON, void *_Nullable userInfo,
    FMLanguageModelSessionResponseCallback _Nonnull callback);

/*
 * The same, with an answer that is JSON valid by a JSON Schema given as text. The answer is checked
 * here whatever the server claims; a mismatch is status 6.
 */
FMTaskRef _Nonnull FMLanguageModelSessionRespondWithSchemaFromJSON(
    FMLanguageModelSessionRef _Nonnull session, FMComposedPromptRef _Nonnull prompt,
    const char *_Nonnull schemaJSON, const char *_Nullable optionsJSON, void *_Nullable userInfo,
    FMLanguageModelSessionStructuredResponseCallback _Nonnull callback);

/*
 * A stream (+1) that answers the prompt once it is iterated; NULL if `optionsJSON` is no JSON
 * object. Releasing the stream cancels it.
 */
FMLanguageModelSessionResponseStreamRef _Nonnull FMLanguageModelSessionStreamResponse(
    FMLanguageModelSessionRef _Nonnull session, FMComposedPromptRef _Nonnull prompt,
    const char *_Nullable optionsJSON);

/*
 * Starts the stream and returns at once. The callback gets the whole text so far each time (a
 * snapshot, status 0), then one call with status 0, content NULL and length 0. A failure is one call
 * with its status and description, after which nothing comes. A stream iterates once.
 */
void FMLanguageModelSessionResponseStreamIterate(
    FMLanguageModelSessionResponseStreamRef _Nonnull stream, void *_Nullable userInfo,
    FMLanguageModelSessionResponseCallback _Nonnull callback);

/* ---- Composed prompts --------------------------------------------------------------------- */

/* An empty prompt. +1. */
FMComposedPromptRef _Nonnull FMComposedPromptInitialize(void);

/* Appends text. A text that is no UTF-8 makes the request fail with status 120. */
void FMComposedPromptAddText(FMComposedPromptRef _Nonnull prompt, const char *_Nonnull text);

/*
 * Appends the picture at `path`, with a label by which the model can name it (NULL = none). The file
 * is opened, read, checked and closed before the call returns; no descriptor is kept. On failure the
 * result is false, `error` (may be NULL) is 3, and FMLastErrorCode and FMLastErrorDescription tell
 * which of the codes 100 to 139 it was.
 */
bool FMComposedPromptAddAttachment(FMComposedPromptRef _Nonnull prompt, const char *_Nonnull path,
                                   const char *_Nullable label,
                                   FMComposedPromptAddImageError *_Nullable error);

/* FMComposedPromptAddAttachment without a label. */
bool FMComposedPromptAddImage(FMComposedPromptRef _Nonnull prompt, const char *_Nonnull path,
                              FMComposedPromptAddImageError *_Nullable error);

/* FMComposedPromptAddAttachment with a label. */
bool FMComposedPromptAddIdentifiedImage(FMComposedPromptRef _Nonnull prompt,
                                        const char *_Nonnull path,
                                        const char *_Nonnull identifier,
                                        FMComposedPromptAddImageError *_Nullable error);

/* ---- Generated content -------------------------------------------------------------------- */

/* A content from JSON text (any value). +1, or NULL with code 255. */
FMGeneratedContentRef _Nullable FMGeneratedContentCreateFromJSON(
    const char *_Nonnull json, int *_Nullable outErrorCode,
    char *_Nullable *_Nullable outErrorDescription);

/* The content as JSON text, members in order. Free with FMFreeString. */
char *_Nullable FMGeneratedContentGetJSONString(FMGeneratedContentRef _Nonnull content);

/*
 * The string value of a property. NULL with code 255 when it is missing or no string. Free with
 * FMFreeString.
 */
char *_Nullable FMGeneratedContentGetPropertyValue(FMGeneratedContentRef _Nonnull content,
                                                   const char *_Nonnull propertyName,
                                                   int *_Nullable outErrorCode,
                                                   char *_Nullable *_Nullable outErrorDescription);

/* Whether the content came whole. */
bool FMGeneratedContentIsComplete(FMGeneratedContentRef _Nonnull content);

/* ---- Tasks and memory --------------------------------------------------------------------- */

/*
 * Asks a request to stop. Its callback still comes, once, with status 255 "Operation cancelled";
 * after completion nothing happens.
 */
void FMTaskCancel(FMTaskRef _Nonnull task);

/* One more owner. Works on every reference of this library; NULL is ignored. */
void FMRetain(const void *_Nullable object);

/* One owner less; the last one frees the object. NULL is ignored. */
void FMRelease(const void *_Nullable object);

/* Frees a string that this library returned. NULL is ignored. */
void FMFreeString(char *_Nullable string);

#ifdef __cplusplus
}
#endif

#endif
