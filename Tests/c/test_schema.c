/* Schemas: the builder, what it writes, and answers that are valid by them. */
#include "harness.h"

/* The schema's JSON, in a buffer; "" with `*code` set where there is none. */
static const char *json_of(FMGenerationSchemaRef schema, int *code) {
  static char buffer[8192];
  char *description = NULL;
  char *json = FMGenerationSchemaGetJSONString(schema, code, &description);
  snprintf(buffer, sizeof buffer, "%s", json != NULL ? json : "");
  FMFreeString(json);
  FMFreeString(description);
  return buffer;
}

/* A property that is added and released at once; the schema keeps it. */
static void add(FMGenerationSchemaRef schema, const char *name, const char *type, bool optional) {
  FMGenerationSchemaPropertyRef property =
      FMGenerationSchemaPropertyCreate(name, NULL, type, optional);
  FMGenerationSchemaAddProperty(schema, property);
  FMRelease(property);
}

static FMGenerationSchemaRef person(void) {
  FMGenerationSchemaRef schema = FMGenerationSchemaCreate("Person", "Somebody.");
  FMGenerationSchemaPropertyRef age = FMGenerationSchemaPropertyCreate("age", NULL, "integer", false);
  add(schema, "name", "string", false);
  FMGenerationSchemaAddProperty(schema, age);
  /* After it was added. */
  FMGenerationSchemaPropertyAddRangeGuide(age, 0.5, 150.9, false);
  FMRelease(age);
  return schema;
}

TEST(a_schema_is_written_as_the_reference_writes_it) {
  int code = 0;
  FMGenerationSchemaRef schema = person();
  FMGenerationSchemaRef pet = FMGenerationSchemaCreate("Pet", NULL);
  add(pet, "kind", "", false);
  add(pet, "parent", "Pet", true);
  add(pet, "owner", "Person", true);
  FMGenerationSchemaPropertyRef pets =
      FMGenerationSchemaPropertyCreate("pets", "All of them.", "array<Pet>", true);
  FMGenerationSchemaPropertyAddMinItemsGuide(pets, 1);
  FMGenerationSchemaPropertyAddMaxItemsGuide(pets, 3);
  FMGenerationSchemaAddProperty(schema, pets);
  FMRelease(pets);
  FMGenerationSchemaAddReferenceSchema(schema, pet);
  FMRelease(pet);
  CHECK_TEXT(
      "{\"title\":\"Person\",\"type\":\"object\",\"description\":\"Somebody.\",\"properties\":{"
      "\"name\":{\"type\":\"string\"},\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":150},"
      "\"pets\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/Pet\"},\"minItems\":1,"
      "\"maxItems\":3,\"description\":\"All of them.\"}},\"required\":[\"name\",\"age\"],"
      "\"x-order\":[\"name\",\"age\",\"pets\"],\"additionalProperties\":false,\"$defs\":{\"Pet\":{"
      "\"title\":\"Pet\",\"type\":\"object\",\"properties\":{\"kind\":{\"type\":\"string\"},"
      "\"parent\":{\"$ref\":\"#/$defs/Pet\"},\"owner\":{\"$ref\":\"#\"}},\"required\":[\"kind\"],"
      "\"x-order\":[\"kind\",\"parent\",\"owner\"],\"additionalProperties\":false}}}",
      json_of(schema, &code));
  CHECK_INT(0, code);
  FMRelease(schema);
}

TEST(every_type_and_guide) {
  int code = 0;
  const char *const choices[] = {"a", "b"};
  FMGenerationSchemaRef schema = FMGenerationSchemaCreate("T", NULL);
  FMGenerationSchemaPropertyRef p[6] = {
      FMGenerationSchemaPropertyCreate("s", NULL, "array<string>", false),
      FMGenerationSchemaPropertyCreate("n", NULL, "double", false),
      FMGenerationSchemaPropertyCreate("i", NULL, "array<int>", false),
      FMGenerationSchemaPropertyCreate("m", NULL, "map<array<bool>>", false),
      FMGenerationSchemaPropertyCreate("r", NULL, "string", false),
      FMGenerationSchemaPropertyCreate("picture", NULL, "ImageReference", false),
  };
  FMGenerationSchemaPropertyAddAnyOfGuide(p[0], choices, 2, false);
  FMGenerationSchemaPropertyAddCountGuide(p[0], 2, false);
  FMGenerationSchemaPropertyAddMinimumGuide(p[1], 0.5, false);
  FMGenerationSchemaPropertyAddMaximumGuide(p[1], 2, false);
  FMGenerationSchemaPropertyAddMinimumGuide(p[2], 1.5, true);
  FMGenerationSchemaPropertyAddRegex(p[4], "^[a-z]+$", false);
  for (int i = 0; i < 6; i++) {
    FMGenerationSchemaAddProperty(schema, p[i]);
    FMRelease(p[i]);
  }
  const char *json = json_of(schema, &code);
  CHECK_HAS("\"s\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"enum\":[\"a\",\"b\"]},"
            "\"minItems\":2,\"maxItems\":2}", json);
  CHECK_HAS("\"n\":{\"type\":\"number\",\"minimum\":0.5,\"maximum\":2}", json);
  CHECK_HAS("\"i\":{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":1}}", json);
  CHECK_HAS("\"m\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"array\",\"items\":{"
            "\"type\":\"boolean\"}}}", json);
  CHECK_HAS("\"r\":{\"type\":\"string\",\"pattern\":\"^[a-z]+$\"}", json);
  CHECK_HAS("\"picture\":{\"$ref\":\"#/$defs/ImageReference\"}", json);
  CHECK_HAS("\"attachmentLabel\"", json);
  FMRelease(schema);
}

TEST(what_is_wrong_shows_when_the_schema_is_used) {
  struct {
    const char *type;
    int guide;
    int status;
    const char *says;
  } cases[] = {
      {"Nobody", 0, 10, "\"Nobody\""},
      {"boolean", 1, 4, "\"minimum\" of \"T.p\""},
      {"string", 1, 4, "\"minimum\" of \"T.p\""},
      {"string", 2, 4, "cannot be used"},
      {"number", 3, 10, "runs from 2.0 down to 1.0"},
      {"integer", 4, 4, "\"count\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    FMGenerationSchemaRef schema = FMGenerationSchemaCreate("T", NULL);
    FMGenerationSchemaPropertyRef property =
        FMGenerationSchemaPropertyCreate("p", NULL, cases[i].type, false);
    if (cases[i].guide == 1) FMGenerationSchemaPropertyAddMinimumGuide(property, 1, false);
    if (cases[i].guide == 2) FMGenerationSchemaPropertyAddRegex(property, "(", false);
    if (cases[i].guide == 3) FMGenerationSchemaPropertyAddRangeGuide(property, 2, 1, false);
    if (cases[i].guide == 4) FMGenerationSchemaPropertyAddCountGuide(property, 2, false);
    FMGenerationSchemaAddProperty(schema, property);
    FMRelease(property);
    int code = 0;
    CHECK_TEXT("", json_of(schema, &code));
    CHECK_INT(10, code);

    FMLanguageModelSessionRef session = scenario_session("text");
    FMComposedPromptRef prompt = text_prompt("x");
    Collected collected;
    collected_init(&collected, false);
    FMTaskRef task = FMLanguageModelSessionRespondWithSchema(session, prompt, schema, NULL,
                                                             &collected, collect_content);
    CHECK(wait_for_end(&collected));
    CHECK_INT(1, collected.calls);
    CHECK_INT(cases[i].status, collected.status);
    CHECK_INT('"', last_text(&collected)[0]);
    /* The description is JSON text here: its quotes are escaped. */
    char plain[1024];
    size_t length = 0;
    for (const char *c = last_text(&collected); *c != 0 && length < sizeof plain - 1; c++) {
      if (*c != '\\') plain[length++] = *c;
    }
    plain[length] = 0;
    CHECK_HAS(cases[i].says, plain);
    collected_free(&collected);
    FMRelease(task);
    FMRelease(prompt);
    FMRelease(session);
    FMRelease(schema);
  }
}

TEST(schemas_that_refer_to_each_other_are_freed) {
  int code = 0;
  FMGenerationSchemaRef left = FMGenerationSchemaCreate("Left", NULL);
  FMGenerationSchemaRef right = FMGenerationSchemaCreate("Right", NULL);
  add(left, "r", "Right", true);
  add(right, "l", "Left", true);
  FMGenerationSchemaAddReferenceSchema(left, right);
  FMGenerationSchemaAddReferenceSchema(right, left);
  FMGenerationSchemaAddReferenceSchema(left, left);
  CHECK_HAS("\"$defs\":{\"Right\"", json_of(left, &code));
  CHECK_HAS("\"$defs\":{\"Left\"", json_of(right, &code));
  CHECK_INT(0, code);
  FMRelease(left);
  FMRelease(right);
  CHECK_INT(0, live_objects_after_a_while(FMObjectKindGenerationSchema));
  CHECK_INT(0, live_objects_after_a_while(FMObjectKindGenerationSchemaProperty));
}

TEST(an_answer_is_checked_whatever_the_server_says) {
  struct {
    const char *scenario;
    const char *options;
    int status;
    const char *has;
  } cases[] = {
      {"text?text={\"age\":3,\"name\":\"A\"}", NULL, 0, "{\"name\":\"A\",\"age\":3}"},
      {"text?text=```json\n{\"age\":3,\"name\":\"A\"}\n```", NULL, 0, "{\"name\":\"A\",\"age\":3}"},
      {"text?text={\"age\":300,\"name\":\"A\"}", NULL, 6, "$.age: 300 is above 150"},
      {"text?text={\"age\":3}", NULL, 6, "is missing"},
      {"text?text=Sure!", NULL, 6, "no JSON"},
      {"text?text={\"age\":3}", "{\"repair_attempts\":4}", 255, "repair_attempts"},
      {"text?text={\"age\":3}", "{\"repair_attempts\":2}", 6, "is missing"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    FMGenerationSchemaRef schema = person();
    FMLanguageModelSessionRef session = scenario_session(cases[i].scenario);
    FMComposedPromptRef prompt = text_prompt("Who?");
    Collected collected;
    collected_init(&collected, false);
    FMTaskRef task = FMLanguageModelSessionRespondWithSchema(session, prompt, schema,
                                                             cases[i].options, &collected,
                                                             collect_content);
    FMRelease(schema);
    CHECK(wait_for_end(&collected));
    CHECK_INT(1, collected.calls);
    CHECK_INT(cases[i].status, collected.status);
    CHECK_HAS(cases[i].has, last_text(&collected));
    collected_free(&collected);
    FMRelease(task);
    FMRelease(prompt);
    FMRelease(session);
  }
}

typedef struct Snapshots {
  Collected collected;
  int complete; /* contents that were whole */
  int ends;
} Snapshots;

static void collect_snapshot(int status, FMGeneratedContentRef content, void *user_info) {
  Snapshots *snapshots = user_info;
  if (content != NULL && status == 0 && FMGeneratedContentIsComplete(content)) {
    snapshots->complete++;
  }
  collect_content(status, content, &snapshots->collected);
}

static void iterate(FMGenerationSchemaRef schema, const char *scenario, Snapshots *snapshots) {
  int code = 0;
  FMLanguageModelSessionRef session = scenario_session(scenario);
  FMComposedPromptRef prompt = text_prompt("Who?");
  memset(snapshots, 0, sizeof *snapshots);
  collected_init(&snapshots->collected, true);
  FMLanguageModelSessionResponseStreamRef stream = FMLanguageModelSessionStreamResponseWithSchema(
      session, prompt, schema, NULL, &code, NULL);
  CHECK(stream != NULL);
  FMRelease(prompt);
  FMLanguageModelSessionResponseStreamIterateStructured(stream, snapshots, collect_snapshot);
  CHECK(wait_for_end(&snapshots->collected));
  FMRelease(stream);
  FMRelease(session);
}

TEST(a_guided_stream_gives_snapshots_then_the_whole_then_an_end) {
  FMGenerationSchemaRef schema = person();
  Snapshots snapshots;
  iterate(schema, "text?delay=0.05&text={\"name\": \"Ada Byron\", \"age\": 36}", &snapshots);
  Collected *all = &snapshots.collected;
  CHECK_INT(1, snapshots.complete);
  CHECK(all->calls >= 3);
  CHECK(all->texts[all->calls - 1] == NULL);
  CHECK_TEXT("{\"name\":\"Ada Byron\",\"age\":36}", all->texts[all->calls - 2]);
  /* How many come depends on how fast the reader is; each holds what was certain then. */
  const char *const steps[] = {"{}", "{\"name\":\"Ada\"}", "{\"name\":\"Ada Byron\"}",
                               "{\"name\":\"Ada Byron\",\"age\":36}"};
  size_t step = 0;
  for (int i = 0; i < all->calls - 2; i++) {
    CHECK_INT(0, all->statuses[i]);
    while (step < 4 && strcmp(all->texts[i], steps[step]) != 0) step++;
  }
  CHECK(step < 4);
  collected_free(all);

  iterate(schema, "text?text={\"name\": \"Ada\", \"age\": 1000}", &snapshots);
  CHECK_INT(6, snapshots.collected.status);
  CHECK_INT(0, snapshots.complete);
  CHECK_HAS("$.age", last_text(&snapshots.collected));
  collected_free(&snapshots.collected);
  FMRelease(schema);

  int code = 0;
  FMLanguageModelSessionRef session = scenario_session("text");
  FMComposedPromptRef prompt = text_prompt("x");
  schema = person();
  CHECK(FMLanguageModelSessionStreamResponseWithSchema(session, prompt, schema, "{", &code, NULL) ==
        NULL);
  CHECK_INT(255, code);
  CHECK(FMLanguageModelSessionStreamResponseWithSchema(session, prompt, NULL, NULL, &code, NULL) ==
        NULL);
  CHECK_INT(11, code);
  FMRelease(schema);
  FMRelease(prompt);
  FMRelease(session);
  CHECK_INT(0, live_objects_after_a_while(FMObjectKindGeneratedContent));
}

TEST(schemas_and_contents_come_from_json) {
  int code = 0;
  char *description = NULL;
  CHECK(FMGenerationSchemaCreateFromJSON("{\"nullable\":true}", &code, &description) == NULL);
  CHECK_INT(4, code);
  CHECK_HAS("#/nullable", description);
  FMFreeString(description);
  CHECK(FMGenerationSchemaCreateFromJSON("{\"type\":1}", &code, NULL) == NULL);
  CHECK_INT(10, code);
  CHECK(FMGenerationSchemaCreateFromDeclarationJSON("{\"name\":\"T\"}", &code, NULL) == NULL);
  CHECK_INT(10, code);

  FMGenerationSchemaRef schema = FMGenerationSchemaCreateFromDeclarationJSON(
      "{\"name\":\"T\",\"properties\":[{\"name\":\"u\",\"schema\":{\"anyOf\":[{\"$ref\":"
      "\"#/$defs/U\"},{\"type\":\"null\"}]}},{\"name\":\"n\",\"type\":\"array<int>\",\"guides\":"
      "[[\"element\",[\"range\",[1,3]]],[\"count\",2]]}],\"references\":[{\"name\":\"U\","
      "\"properties\":[]}]}",
      &code, NULL);
  CHECK(schema != NULL);
  FMGeneratedContentRef content = FMGeneratedContentCreateFromJSONWithSchema(
      "{\"n\":[1,3],\"u\":null}", schema, &code, NULL);
  char *json = FMGeneratedContentGetJSONString(content);
  CHECK_TEXT("{\"u\":null,\"n\":[1,3]}", json);
  FMFreeString(json);
  FMRelease(content);
  CHECK(FMGeneratedContentCreateFromJSONWithSchema("{\"n\":[1,4],\"u\":null}", schema, NULL,
                                                   NULL) == NULL);
  CHECK_INT(6, FMLastErrorCode());
  json = FMLastErrorCopyDetailsJSON();
  CHECK_HAS("\"json_path\":\"$.n[1]\"", json);
  FMFreeString(json);
  /* Nothing can be added to a schema that came whole. */
  FMGenerationSchemaPropertyRef property =
      FMGenerationSchemaPropertyCreate("p", NULL, "string", false);
  FMRelease(schema);
  schema = FMGenerationSchemaCreateFromJSON("{\"type\":\"string\"}", &code, NULL);
  FMGenerationSchemaAddProperty(schema, property);
  CHECK_INT(11, FMLastErrorCode());
  FMRelease(property);
  FMRelease(schema);

  content = FMGeneratedContentCreateFromJSON("{\"a\": \"unfini", &code, NULL);
  CHECK(!FMGeneratedContentIsComplete(content));
  json = FMGeneratedContentGetJSONString(content);
  CHECK_TEXT("{\"a\":\"unfini\"}", json);
  FMFreeString(json);
  FMRelease(content);
}

TEST(an_image_reference_names_what_is_attached) {
  int code = 0;
  char *description = NULL;
  FMGenerationSchemaRef schema = FMGenerationSchemaCreate("Pick", NULL);
  add(schema, "best", "ImageReference", false);
  FMLanguageModelSessionRef session =
      scenario_session("text?text={\"best\":{\"attachmentLabel\":\"red\"}}");
  FMComposedPromptRef prompt = text_prompt("Which?");
  FMComposedPromptAddAttachment(prompt, picture("good.jpg"), "red", NULL);
  FMComposedPromptAddAttachment(prompt, picture("turned.jpg"), "blue", NULL);
  for (int round = 0; round < 2; round++) {
    Collected collected;
    collected_init(&collected, false);
    FMTaskRef task = FMLanguageModelSessionRespondWithSchema(session, prompt, schema, NULL,
                                                             &collected, collect_content);
    CHECK(wait_for_end(&collected));
    CHECK_INT(round == 0 ? 0 : 4, collected.status);
    CHECK_HAS(round == 0 ? "\"red\"" : "no attached picture has a label", last_text(&collected));
    collected_free(&collected);
    FMRelease(task);
    if (round == 0) {
      char *json = FMLanguageModelSessionCopyAttachmentJSON(session, "blue", &code, NULL);
      CHECK_HAS("turned.jpg\",\"orientation\":6,\"sha256\":\"", json);
      CHECK_HAS("\"mime_type\":\"image/", json);
      FMFreeString(json);
      CHECK(FMLanguageModelSessionCopyAttachmentJSON(session, "green", &code, &description) == NULL);
      CHECK_INT(125, code);
      CHECK_HAS("there are \"red\", \"blue\"", description);
      FMFreeString(description);
      FMRelease(session);
      FMRelease(prompt);
      session = scenario_session("text");
      prompt = text_prompt("Which?");
    }
  }
  FMRelease(prompt);
  FMRelease(session);
  FMRelease(schema);
}

MAIN()
