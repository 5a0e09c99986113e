/* What a C host does, through the public headers alone: train, save, restore, decode, infill, read
 * errors, release in any order. */
#define _XOPEN_SOURCE 700
#include "world.h"

#include <ftw.h>
#include <string.h>
#include <unistd.h>

#define ROOM 128

static int remove_entry(const char* path, const struct stat* status, int kind, struct FTW* walk) {
  (void)status, (void)kind, (void)walk;
  return remove(path);
}

static void test_tokenizer(struct world* w) {
  const char* text = "the cat on the mat";
  int32_t ids[ROOM];
  int64_t count = 0, need = 0;
  dllm_buffer* back = dllm_buffer_new();
  CHECK(dllm_tokenizer_encode(w->tok, text, (int64_t)strlen(text), NULL, 0, &need, w->err) ==
        DLLM_OUT_OF_RANGE);
  NEED(dllm_tokenizer_encode(w->tok, text, (int64_t)strlen(text), ids, ROOM, &count, w->err),
       w->err);
  CHECK(count == need && count > 0 && count < (int64_t)strlen(text));
  NEED(dllm_tokenizer_decode(w->tok, ids, count, back, w->err), w->err);
  CHECK(strcmp((const char*)dllm_buffer_data(back), text) == 0);
  dllm_buffer_release(back);
}

static const char kMessages[] = "[{\"role\": \"user\", \"content\": \"the cat\"}, {\"role\": "
                                "\"assistant\", \"content\": \"sat\"}]";

static void test_chat(struct world* w) {
  dllm_options* opts = NULL;
  dllm_batch* row = NULL;
  dllm_tensor* keep = NULL;
  CHECK(dllm_tokenizer_chat(w->tok, kMessages, sizeof kMessages - 1, NULL, &row, w->err) ==
        DLLM_FAILED_PRECONDITION);
  CHECK(strstr(dllm_error_hint(w->err), "template") != NULL && row == NULL);
  NEED(dllm_options_new("chat", &opts, w->err), w->err);
  NEED(dllm_options_set_str(opts, "template", "{% for m in messages %}{{ m.content }};{% endfor %}",
                            w->err),
       w->err);
  NEED(dllm_tokenizer_chat(w->tok, kMessages, sizeof kMessages - 1, opts, &row, w->err), w->err);
  NEED(dllm_batch_array(row, "keep", &keep, w->err), w->err);
  CHECK(dllm_tensor_dim(keep, 0) == 1 && dllm_tensor_dim(keep, 1) > 2);
  CHECK(((const uint8_t*)dllm_tensor_data(keep))[0] == 1);
  dllm_tensor_release(keep);
  dllm_batch_release(row);
  dllm_options_release(opts);
}

static int32_t count_event(const dllm_event* event, void* user_data) {
  int64_t* seen = (int64_t*)user_data;
  double loss = 0;
  if (dllm_event_kind(event) != DLLM_EVENT_TRAIN_STEP) return DLLM_CONTINUE;
  if (dllm_event_f64(event, "loss", &loss, NULL) != DLLM_OK || !(loss > 0)) return DLLM_FAIL;
  ++*seen;
  return DLLM_CONTINUE;
}

/* The held-out loss draws the same noise every time, so it can be compared. */
static double eval(dllm_trainer* trainer, dllm_dataset* data, dllm_error* err) {
  double loss = 0, metric = 0;
  dllm_loader* loader = make_loader(data, "{\"batch\": 8, \"length\": 32, \"shuffle\": 0}", err);
  NEED(dllm_trainer_eval(trainer, loader, 4, NULL, &loss, err), err);
  NEED(dllm_trainer_metric(trainer, "held_out_loss", &metric, err), err);
  CHECK(metric == loss);
  dllm_loader_release(loader);
  return loss;
}

static const char* const rows = "{\"batch\": 8, \"length\": 32, \"epochs\": 0}";
static const char* const learning = "{\"lr\": 0.02, \"warmup\": 0}";

/* Ten steps, a checkpoint, two more; the restored twin takes the same two. */
static void test_training(struct world* w) {
  char folder[512];
  const char* temporary = getenv("TMPDIR");
  int64_t seen = 0, i;
  double before, after, step = 0, loss[2], twin_loss[2];
  dllm_buffer *dir = dllm_buffer_new(), *latest = dllm_buffer_new();
  dllm_trainer *trainer = make_trainer(w->model, learning, w->err), *twin;
  dllm_loader *loader = make_loader(w->data, rows, w->err), *twin_loader;
  dllm_model* twin_model = make_model(w->engine, w->tok, 32, 2, w->err);

  before = eval(trainer, w->data, w->err);
  NEED(dllm_trainer_run(trainer, loader, 10, count_event, &seen, NULL, w->err), w->err);
  after = eval(trainer, w->data, w->err);
  printf("# loss %.3f before, %.3f after ten steps\n", before, after);
  CHECK(seen == 10);
  CHECK(after < 0.9 * before);
  NEED(dllm_trainer_metric(trainer, "step", &step, w->err), w->err);
  CHECK(step == 10);

  snprintf(folder, sizeof folder, "%s/dllm_client_XXXXXX", temporary ? temporary : P_tmpdir);
  if (mkdtemp(folder) == NULL) exit(1);
  NEED(dllm_checkpoint_save(trainer, loader, folder, NULL, NULL, dir, w->err), w->err);
  CHECK(dllm_checkpoint_save(trainer, loader, folder, NULL, NULL, NULL, w->err) ==
        DLLM_ALREADY_EXISTS);
  NEED(dllm_checkpoint_latest(folder, latest, w->err), w->err);
  CHECK(strcmp((const char*)dllm_buffer_data(dir), (const char*)dllm_buffer_data(latest)) == 0);

  twin = make_trainer(twin_model, learning, w->err);
  twin_loader = make_loader(w->data, rows, w->err);
  NEED(dllm_checkpoint_restore(twin, twin_loader, (const char*)dllm_buffer_data(latest), NULL,
                               w->err),
       w->err);
  CHECK(dllm_loader_position(twin_loader) == dllm_loader_position(loader));
  for (i = 0; i < 2; i++) {
    dllm_batch* batch = NULL;
    NEED(dllm_loader_next(loader, &batch, w->err), w->err);
    NEED(dllm_trainer_step(trainer, batch, NULL, &loss[i], w->err), w->err);
    dllm_batch_release(batch);
    NEED(dllm_loader_next(twin_loader, &batch, w->err), w->err);
    NEED(dllm_trainer_step(twin, batch, NULL, &twin_loss[i], w->err), w->err);
    dllm_batch_release(batch);
  }
  CHECK(memcmp(loss, twin_loss, sizeof loss) == 0);

  /* The model inside a checkpoint opens on its own. */
  dllm_model_release(twin_model);
  NEED(dllm_model_load(w->engine, (const char*)dllm_buffer_data(latest), NULL, NULL, &twin_model,
                       w->err),
       w->err);
  CHECK(dllm_model_param_count(twin_model) == dllm_model_param_count(w->model));

  dllm_model_release(twin_model);
  dllm_trainer_release(twin);
  dllm_loader_release(twin_loader);
  dllm_trainer_release(trainer);
  dllm_loader_release(loader);
  dllm_buffer_release(dir);
  dllm_buffer_release(latest);
  nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

struct seen {
  int64_t steps, blocks, last_open;
  int32_t stop_after; /* 0: never */
};

static int32_t watch_decoding(const dllm_event* event, void* user_data) {
  struct seen* seen = (struct seen*)user_data;
  int64_t ids = 0, states = 0, confidence = 0, open = -1;
  if (dllm_event_kind(event) == DLLM_EVENT_BLOCK) seen->blocks++;
  if (dllm_event_kind(event) != DLLM_EVENT_DECODE_STEP) return DLLM_CONTINUE;
  if (dllm_event_i64(event, "open", &open, NULL) != DLLM_OK) return DLLM_FAIL;
  if (dllm_event_i32s(event, "ids", &ids) == NULL) return DLLM_FAIL;
  if (dllm_event_i32s(event, "states", &states) == NULL) return DLLM_FAIL;
  if (dllm_event_f32s(event, "confidence", &confidence) == NULL) return DLLM_FAIL;
  if (ids != states || ids != confidence || open >= seen->last_open) return DLLM_FAIL;
  seen->last_open = open;
  seen->steps++;
  return seen->steps == seen->stop_after ? DLLM_STOP : DLLM_CONTINUE;
}

static void test_decoding(struct world* w) {
  int32_t prompt[3] = {5, 6, 7}, ids[ROOM], again[ROOM];
  int64_t count = 0, active = 1;
  double done = 0;
  struct seen seen = {0, 0, 1000, 3};
  dllm_decoder* decoder = NULL;
  dllm_options* opts = make_options(
      "decoder:low_confidence",
      "{\"steps\": 8, \"gen_length\": 16, \"block_length\": 8, \"temperature\": 0.8}", w->err);
  NEED(dllm_decoder_new(w->model, opts, &decoder, w->err), w->err);
  dllm_options_release(opts);

  NEED(dllm_decoder_start(decoder, prompt, 3, 42, w->err), w->err);
  NEED(dllm_decoder_run(decoder, watch_decoding, &seen, NULL, w->err), w->err);
  CHECK(seen.steps == 3 && seen.last_open > 0); /* the callback said DLLM_STOP */
  seen.stop_after = 0;
  NEED(dllm_decoder_run(decoder, watch_decoding, &seen, NULL, w->err), w->err);
  CHECK(seen.steps == 8 && seen.last_open == 0 && seen.blocks == 2);
  NEED(dllm_decoder_metric(decoder, 0, "done", &done, w->err), w->err);
  CHECK(done == 1);
  NEED(dllm_decoder_ids(decoder, 0, ids, ROOM, &count, w->err), w->err);
  CHECK(count == 19 && memcmp(ids, prompt, sizeof prompt) == 0);

  NEED(dllm_decoder_start(decoder, prompt, 3, 42, w->err), w->err);
  while (active > 0) NEED(dllm_decoder_step(decoder, NULL, &active, w->err), w->err);
  NEED(dllm_decoder_ids(decoder, 0, again, ROOM, &count, w->err), w->err);
  CHECK(memcmp(ids, again, 19 * sizeof *ids) == 0);
  dllm_decoder_release(decoder);
}

static void test_infilling(struct world* w) {
  int32_t canvas[8] = {5, 6, 0, 0, 0, 7, 0, 8}, ids[ROOM];
  const uint8_t fixed[8] = {1, 1, 0, 0, 0, 1, 0, 1};
  uint8_t states[ROOM];
  float confidence[ROOM];
  int64_t slot = -1, count = 0, i, good = 0;
  dllm_decoder* decoder = NULL;
  NEED(dllm_decoder_new(w->model, NULL, &decoder, w->err), w->err);
  NEED(dllm_decoder_add(decoder, canvas, fixed, 8, NULL, &slot, w->err), w->err);
  NEED(dllm_decoder_run(decoder, NULL, NULL, NULL, w->err), w->err);
  NEED(dllm_decoder_ids(decoder, slot, ids, ROOM, &count, w->err), w->err);
  NEED(dllm_decoder_states(decoder, slot, states, ROOM, &count, w->err), w->err);
  NEED(dllm_decoder_confidence(decoder, slot, confidence, ROOM, &count, w->err), w->err);
  for (i = 0; i < 8; i++) {
    if (fixed[i])
      good += ids[i] == canvas[i] && states[i] == DLLM_FIXED && confidence[i] == 1;
    else
      good += ids[i] != w->mask_id && states[i] == DLLM_FINAL && confidence[i] > 0;
  }
  CHECK(count == 8 && good == 8);
  NEED(dllm_decoder_remove(decoder, slot, w->err), w->err);
  CHECK(dllm_decoder_remove(decoder, slot, w->err) == DLLM_NOT_FOUND);
  dllm_decoder_release(decoder);
}

static int has(const char* text, const char* part) {
  return strstr(text, part) != NULL;
}

static void test_errors(struct world* w) {
  int32_t prompt[2] = {5, 100000}, ids[2], many[600] = {0};
  int64_t count = 0;
  char number[32];
  dllm_decoder* decoder = NULL;
  dllm_model* model = NULL;
  dllm_options *opts = make_options("decoder", NULL, w->err), *none = NULL;

  CHECK(dllm_options_set_i64(opts, "step", 3, w->err) == DLLM_NOT_FOUND);
  CHECK(dllm_error_code(w->err) == DLLM_NOT_FOUND);
  CHECK(has(dllm_error_message(w->err), "step") && has(dllm_error_hint(w->err), "steps"));
  CHECK(dllm_options_set_i64(opts, "steps", 0, w->err) == DLLM_INVALID_ARGUMENT);
  CHECK(dllm_options_set_str(opts, "steps", "ten", w->err) == DLLM_INVALID_ARGUMENT);
  CHECK(dllm_options_new("decodr", &none, w->err) == DLLM_NOT_FOUND && none == NULL);
  CHECK(has(dllm_error_hint(w->err), "decoder"));
  CHECK(dllm_trainer_new(w->model, NULL, opts, NULL, w->err) == DLLM_INVALID_ARGUMENT);

  NEED(dllm_decoder_new(w->model, opts, &decoder, w->err), w->err);
  CHECK(dllm_decoder_step(decoder, NULL, NULL, w->err) == DLLM_FAILED_PRECONDITION);
  CHECK(dllm_decoder_start(decoder, prompt, 2, 0, w->err) == DLLM_INVALID_ARGUMENT);
  CHECK(has(dllm_error_message(w->err), "100000") && has(dllm_error_message(w->err), "position 1"));
  CHECK(dllm_decoder_start(decoder, many, 600, 0, w->err) == DLLM_OUT_OF_RANGE);
  snprintf(number, sizeof number, "%d", 512);
  CHECK(has(dllm_error_message(w->err), number));
  CHECK(dllm_decoder_start(decoder, NULL, 0, 0, NULL) == DLLM_OK); /* no error object: fine */
  CHECK(dllm_decoder_ids(decoder, 0, ids, 2, &count, w->err) == DLLM_OUT_OF_RANGE && count == 64);
  CHECK(dllm_decoder_ids(decoder, 7, ids, 2, &count, NULL) == DLLM_NOT_FOUND);
  CHECK(dllm_model_load(w->engine, "/no/such/folder", NULL, NULL, &model, w->err) ==
            DLLM_NOT_FOUND &&
        model == NULL);
  CHECK(has(dllm_error_message(w->err), "/no/such/folder"));
  CHECK(dllm_model_new(w->engine, "{}", 2, NULL, NULL, &model, w->err) != DLLM_OK);
  CHECK(has(dllm_error_message(w->err), "model_type"));
  dllm_decoder_release(decoder);
  dllm_options_release(opts);
}

/* What is made from something keeps it alive: the host may let go of parents first. */
static void test_release_order(void) {
  struct world w;
  dllm_error* err = dllm_error_new();
  dllm_decoder* decoder = NULL;
  dllm_loader* loader;
  dllm_trainer* trainer;
  int32_t ids[ROOM];
  int64_t count = 0;
  open_world(&w, 1);
  loader = make_loader(w.data, rows, err);
  trainer = make_trainer(w.model, learning, err);
  NEED(dllm_decoder_new(w.model, NULL, &decoder, err), err);
  close_world(&w);
  NEED(dllm_trainer_run(trainer, loader, 1, NULL, NULL, NULL, err), err);
  dllm_loader_release(loader);
  dllm_trainer_release(trainer);
  NEED(dllm_decoder_start(decoder, NULL, 0, 1, err), err);
  NEED(dllm_decoder_run(decoder, NULL, NULL, NULL, err), err);
  NEED(dllm_decoder_ids(decoder, 0, ids, ROOM, &count, err), err);
  CHECK(count == 64);
  dllm_decoder_release(decoder);
  dllm_error_release(err);
}

int main(void) {
  struct world w;
  CHECK(dllm_abi_version() == 1);
  open_world(&w, 2);
  test_tokenizer(&w);
  test_chat(&w);
  test_training(&w);
  test_decoding(&w);
  test_infilling(&w);
  test_errors(&w);
  close_world(&w);
  test_release_order();
  printf("# %d failures\n", failures);
  return failures != 0;
}
