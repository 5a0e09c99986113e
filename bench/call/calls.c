/* What one call costs in C: the smallest of many rounds, in nanoseconds.
 * The programs in other languages do the same. */
#define _POSIX_C_SOURCE 200809L
#include <dllm/dllm.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { CALLS = 10000, ROUNDS = 100 };

static const char CONFIG[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 32, \"hidden_size\": 16, \"intermediate_size\": "
    "16,"
    " \"num_hidden_layers\": 1, \"num_attention_heads\": 1, \"num_key_value_heads\": 1,"
    " \"max_position_embeddings\": 32, \"dllm\": {\"attention\": \"bidirectional\", "
    "\"mask_token_id\": 1}}";

static dllm_error* err;
static dllm_decoder* decoder;

static void version(void) {
  dllm_abi_version();
}

static void metric(void) {
  double open;
  dllm_decoder_metric(decoder, -1, "open", &open, err);
}

static void ids(void) {
  int32_t canvas[8];
  int64_t count;
  dllm_decoder_ids(decoder, 0, canvas, 8, &count, err);
}

static void task(void) {
  dllm_task_release(dllm_task_new());
}

static void measure(const char* name, void (*call)(void)) {
  double best = 1e30;
  for (int round = 0; round < ROUNDS; round++) {
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < CALLS; i++) call();
    clock_gettime(CLOCK_MONOTONIC, &end);
    const double ns =
        (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
    if (ns / CALLS < best) best = ns / CALLS;
  }
  printf("%s %.1f\n", name, best);
}

int main(void) {
  static const int32_t prompt[] = {2, 3};
  dllm_engine* engine;
  dllm_model* model;
  dllm_options* how;
  err = dllm_error_new();
  if (dllm_engine_new(NULL, &engine, err) ||
      dllm_model_new(engine, CONFIG, (int64_t)strlen(CONFIG), NULL, NULL, &model, err) ||
      dllm_options_new("decoder", &how, err) || dllm_options_set_i64(how, "steps", 2, err) ||
      dllm_options_set_i64(how, "gen_length", 4, err) ||
      dllm_decoder_new(model, how, &decoder, err) || dllm_decoder_start(decoder, prompt, 2, 7, err))
    return fprintf(stderr, "%s\n", dllm_error_message(err)), 1;
  measure("version", version);
  measure("metric", metric);
  measure("ids", ids);
  measure("task", task);
  dllm_decoder_release(decoder);
  dllm_options_release(how);
  dllm_model_release(model);
  dllm_engine_release(engine);
  dllm_error_release(err);
  return 0;
}
