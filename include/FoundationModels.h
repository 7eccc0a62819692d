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
typedef const void *FMGenerationSchemaRef;
typedef const void *FMGenerationSchemaPropertyRef;
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
 * starts nothing and connects to nothing; that an engine cannot run shows at the first request.
 * `unavailableReason` (may be NULL) is written only when the result is false;
 * FMLanguageModelCopyUnavailableExplanation gives the sentence.
 */
bool FMSystemLanguageModelIsAvailable(
    FMSystemLanguageModelRef _Nonnull model,
    FMSystemLanguageModelUnavailableReason *_Nullable unavailableReason);

/*
 * Tokens of context one request has; 0 = unknown. A server is asked, for at most half a second, until
 * it has told; for the embedded engine nothing is started.
 */
int FMSystemLanguageModelGetContextSize(FMSystemLanguageModelRef _Nonnull model);

/* ---- Sessions ----------------------------------------------------------------------------- */

/* A session with the default model, no instructions. +1. */
FMLanguageModelSessionRef _Nonnull FMLanguageModelSessionCreateDefault(void);

/*
 * A session with a model (NULL = the default; any model of OpenFM.h serves) and instructions (NULL
 * or "" = none). The session retains the model and the tools, which it may call while it answers
 * (see FMBridgedToolFinishCall). +1; NULL when an argument is not usable.
 */
FMLanguageModelSessionRef _Nonnull FMLanguageModelSessionCreateFromSystemLanguageModel(
    FMSystemLanguageModelRef _Nullable model, const char *_Nullable instructions,
    FMBridgedToolRef _Nonnull *_Nullable tools, int toolCount);

/*
 * A session of its own that goes on with the transcript of another one, e.g. of
 * FMTranscriptCreateFromJSONString; the other one is left as it is. Instructions come from the
 * transcript; tools are given again. +1; NULL when an argument is not usable.
 */
FMLanguageModelSessionRef _Nonnull FMLanguageModelSessionCreateFromTranscript(
    FMLanguageModelSessionRef _Nonnull transcript, FMSystemLanguageModelRef _Nullable model,
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
 * The same, with an answer that is valid by a schema. The answer is checked here whatever the server
 * claims; a mismatch is status 6. What is wrong with the schema comes through the callback too:
 * status 4 for a guide that does not suit its type or cannot be enforced, 10 for anything else. The
 * schema is read before the call returns. For OpenFM's options see OpenFM.h, "Guided generation".
 */
FMTaskRef _Nonnull FMLanguageModelSessionRespondWithSchema(
    FMLanguageModelSessionRef _Nonnull session, FMComposedPromptRef _Nonnull prompt,
    FMGenerationSchemaRef _Nonnull schema, const char *_Nullable optionsJSON,
    void *_Nullable userInfo, FMLanguageModelSessionStructuredResponseCallback _Nonnull callback);

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

/* ---- Transcripts -------------------------------------------------------------------------- */

/*
 * The session's transcript as JSON: instructions and tools from the start, each turn once it is
 * complete; nothing of a failed or cancelled one. Pictures are told by URL, SHA-256, label and
 * orientation. NULL on failure. Free with FMFreeString.
 */
char *_Nullable FMLanguageModelSessionGetTranscriptJSONString(
    FMLanguageModelSessionRef _Nonnull session, int *_Nullable outErrorCode,
    char *_Nullable *_Nullable outErrorDescription);

/*
 * A session with the default model that holds the transcript of a JSON text (versions 1 and 1.1).
 * Its pictures are read now; one that is gone is an error of the request that sends it. +1, or NULL
 * with code 6 and the place that is wrong.
 */
FMLanguageModelSessionRef _Nullable FMTranscriptCreateFromJSONString(
    const char *_Nonnull json, int *_Nullable outErrorCode,
    char *_Nullable *_Nullable outErrorDescription);

/* ---- Token counts ------------------------------------------------------------------------- */

/* Called exactly once. `count` is 0 on failure, `errorDescription` NULL on success. */
typedef void (*FMSystemLanguageModelTokenCountCallback)(int status, int count,
                                                        const char *_Nullable errorDescription,
                                                        void *_Nullable userInfo);

/*
 * What sending the prompt as the only turn of a session without instructions costs: counted by the
 * server where it can (FMLanguageModelCountTokensOnQueue tells), else estimated. The embedded engine
 * is started. Each returns a task (+1); arguments are captured before the call returns.
 */
FMTaskRef _Nonnull FMSystemLanguageModelTokenCountForPrompt(
    FMSystemLanguageModelRef _Nonnull model, FMComposedPromptRef _Nonnull prompt,
    void *_Nullable userInfo, FMSystemLanguageModelTokenCountCallback _Nonnull callback);

/* What the instructions add to a request. */
FMTaskRef _Nonnull FMSystemLanguageModelTokenCountForInstructions(
    FMSystemLanguageModelRef _Nonnull model, const char *_Nonnull instructions,
    void *_Nullable userInfo, FMSystemLanguageModelTokenCountCallback _Nonnull callback);

/* What the tools add to a request. */
FMTaskRef _Nonnull FMSystemLanguageModelTokenCountForTools(
    FMSystemLanguageModelRef _Nonnull model, FMBridgedToolRef _Nonnull *_Nullable tools,
    int toolCount, void *_Nullable userInfo,
    FMSystemLanguageModelTokenCountCallback _Nonnull callback);

/* What asking for an answer by the schema adds to a request. */
FMTaskRef _Nonnull FMSystemLanguageModelTokenCountForSchema(
    FMSystemLanguageModelRef _Nonnull model, FMGenerationSchemaRef _Nonnull schema,
    void *_Nullable userInfo, FMSystemLanguageModelTokenCountCallback _Nonnull callback);

/*
 * What sending the session's transcript costs; where its last entry is an answer, what it adds to
 * the next request.
 */
FMTaskRef _Nonnull FMSystemLanguageModelTokenCountForTranscript(
    FMSystemLanguageModelRef _Nonnull model, FMLanguageModelSessionRef _Nonnull transcript,
    void *_Nullable userInfo, FMSystemLanguageModelTokenCountCallback _Nonnull callback);

/* ---- Tools -------------------------------------------------------------------------------- */

/*
 * A tool whose parameters are a schema; `name` is 1 to 64 letters, digits, _ and -. `callable` gets
 * the arguments (+1, valid by the schema) and the call's number, on a worker thread, and returns at
 * once; the call is ended by FMBridgedToolFinishCall. +1, or NULL: code 4 for a guide, 11 for a name,
 * 255 for a schema that cannot be built.
 */
FMBridgedToolRef _Nullable FMBridgedToolCreate(
    const char *_Nonnull name, const char *_Nonnull description,
    FMGenerationSchemaRef _Nonnull parameters,
    void (*_Nonnull callable)(FMGeneratedContentRef _Nonnull arguments, unsigned int callId),
    int *_Nullable outErrorCode, char *_Nullable *_Nullable outErrorDescription);

/*
 * Ends a call of a tool with its output. Unknown and finished calls are ignored. May be called from
 * any thread, also before the tool's callable has returned. Several calls of a tool may be open at
 * once; their numbers start at 1.
 */
void FMBridgedToolFinishCall(FMBridgedToolRef _Nonnull tool, unsigned int callId,
                             const char *_Nonnull output);

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

/* ---- Schemas ------------------------------------------------------------------------------- */

/* A schema of that name (description may be NULL) without properties. +1. */
FMGenerationSchemaRef _Nonnull FMGenerationSchemaCreate(const char *_Nonnull name,
                                                        const char *_Nullable description);

/*
 * A property (description may be NULL). `typeName` is "string" (or ""), "number", "float", "double",
 * "integer", "int", "boolean", "bool", "array<TYPE>", "map<TYPE>" (an object with any names), or the
 * name of another schema: the root's own, one added with FMGenerationSchemaAddReferenceSchema, or
 * "ImageReference". An optional property may be missing. +1.
 */
FMGenerationSchemaPropertyRef _Nonnull FMGenerationSchemaPropertyCreate(
    const char *_Nonnull name, const char *_Nullable description, const char *_Nonnull typeName,
    bool isOptional);

/* Adds a property, which the schema retains. Guides may be added to it before and after. */
void FMGenerationSchemaAddProperty(FMGenerationSchemaRef _Nonnull schema,
                                   FMGenerationSchemaPropertyRef _Nonnull property);

/*
 * Adds a schema that properties may name as their type; the schema retains it. References of the
 * added schema count too, at any depth. Of two that refer to each other only one retains the other.
 */
void FMGenerationSchemaAddReferenceSchema(FMGenerationSchemaRef _Nonnull schema,
                                          FMGenerationSchemaRef _Nonnull reference);

/*
 * The schema as JSON Schema: "title", "type", "description", "properties", "required", "x-order",
 * "additionalProperties", "$defs". NULL with code 10 for whatever is wrong with it. Free with
 * FMFreeString.
 */
char *_Nullable FMGenerationSchemaGetJSONString(FMGenerationSchemaRef _Nonnull schema,
                                                int *_Nullable outErrorCode,
                                                char *_Nullable *_Nullable outErrorDescription);

/*
 * Guides limit a property's values; bounds are inclusive. With `wrapped` they are about each element
 * of an array. A guide that does not suit the property's type shows when the schema is used.
 *
 *   string           AnyOf, Regex
 *   number, integer  Minimum, Maximum, Range (whole bounds for integers, cut towards 0)
 *   array            Count, MinItems, MaxItems; wrapped ones as they suit its elements;
 *                    AnyOf of an array of strings is about the elements, wrapped or not
 *
 * The language of FMGenerationSchemaPropertyAddRegex is ECMA-262's with the flag u, without
 * references back to groups; a match anywhere in the string counts, so anchor it with ^ and $.
 */
void FMGenerationSchemaPropertyAddAnyOfGuide(FMGenerationSchemaPropertyRef _Nonnull property,
                                             const char *_Nonnull const *_Nonnull choices,
                                             int choiceCount, bool wrapped);
void FMGenerationSchemaPropertyAddCountGuide(FMGenerationSchemaPropertyRef _Nonnull property,
                                             int count, bool wrapped);
void FMGenerationSchemaPropertyAddMaximumGuide(FMGenerationSchemaPropertyRef _Nonnull property,
                                               double maximum, bool wrapped);
void FMGenerationSchemaPropertyAddMinimumGuide(FMGenerationSchemaPropertyRef _Nonnull property,
                                               double minimum, bool wrapped);
void FMGenerationSchemaPropertyAddMinItemsGuide(FMGenerationSchemaPropertyRef _Nonnull property,
                                                int minItems);
void FMGenerationSchemaPropertyAddMaxItemsGuide(FMGenerationSchemaPropertyRef _Nonnull property,
                                                int maxItems);
void FMGenerationSchemaPropertyAddRangeGuide(FMGenerationSchemaPropertyRef _Nonnull property,
                                             double minimum, double maximum, bool wrapped);
void FMGenerationSchemaPropertyAddRegex(FMGenerationSchemaPropertyRef _Nonnull property,
                                        const char *_Nonnull pattern, bool wrapped);

/* ---- Generated content -------------------------------------------------------------------- */

/*
 * A content from JSON text (any value). A text that is cut off gives what is certain of it, a content
 * that is not complete. +1, or NULL with code 255.
 */
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
