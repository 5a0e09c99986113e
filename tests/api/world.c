#include "world.h"

#include <inttypes.h>
#include <string.h>

static const char* const documents[] = {
    "{\"text\": \"the cat sat on the mat and the dog sat on the log\"}",
    "{\"text\": \"the dog sat on the mat and the cat sat on the log\"}",
    "{\"text\": \"the rain in the plain falls on the cat and the dog\"}",
    "{\"text\": \"on the mat the cat, on the log the dog, in the plain the rain\"}"};

dllm_options* make_options(const char* kind, const char* json, dllm_error* err) {
  dllm_options* opts = NULL;
  NEED(dllm_options_new(kind, &opts, err), err);
  if (json != NULL) NEED(dllm_options_set_json(opts, json, (int64_t)strlen(json), err), err);
  return opts;
}

dllm_engine* make_engine(int64_t threads, dllm_error* err) {
  dllm_engine* engine = NULL;
  dllm_options* opts = make_options("engine", NULL, err);
  NEED(dllm_options_set_i64(opts, "threads", threads, err), err);
  NEED(dllm_engine_new(opts, &engine, err), err);
  dllm_options_release(opts);
  return engine;
}

/* Every text many times over, so that there are rows enough. */
static dllm_dataset* make_dataset(const dllm_tokenizer* tok, dllm_error* err) {
  dllm_dataset* data = NULL;
  size_t i, repeat;
  NEED(dllm_dataset_new(tok, NULL, &data, err), err);
  for (repeat = 0; repeat < 24; repeat++) {
    for (i = 0; i < sizeof documents / sizeof *documents; i++) {
      NEED(dllm_dataset_add(data, documents[i], (int64_t)strlen(documents[i]), err), err);
    }
  }
  return data;
}

static dllm_tokenizer* make_tokenizer(dllm_error* err) {
  dllm_tokenizer* tok = NULL;
  dllm_dataset* text = make_dataset(NULL, err);
  dllm_options* opts = make_options("tokenizer_train", "{\"vocab_size\": 290}", err);
  NEED(dllm_tokenizer_train(text, opts, NULL, &tok, err), err);
  dllm_options_release(opts);
  dllm_dataset_release(text);
  return tok;
}

dllm_model* make_model(dllm_engine* engine, const dllm_tokenizer* tok, int64_t hidden,
                       int64_t layers, dllm_error* err) {
  dllm_model* model = NULL;
  int32_t mask = -1;
  char config[512];
  NEED(dllm_tokenizer_id(tok, "mask", &mask, err), err);
  snprintf(config, sizeof config,
           "{\"model_type\": \"llama\", \"vocab_size\": %" PRId64 ", \"hidden_size\": %" PRId64
           ", \"intermediate_size\": %" PRId64 ", \"num_hidden_layers\": %" PRId64
           ", \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
           " \"max_position_embeddings\": 512, \"tie_word_embeddings\": true,"
           " \"dllm\": {\"attention\": \"bidirectional\", \"mask_token_id\": %d}}",
           dllm_tokenizer_size(tok), hidden, 2 * hidden, layers, (int)mask);
  NEED(dllm_model_new(engine, config, (int64_t)strlen(config), NULL, NULL, &model, err), err);
  return model;
}

dllm_loader* make_loader(dllm_dataset* data, const char* json, dllm_error* err) {
  dllm_loader* loader = NULL;
  dllm_options* opts = make_options("loader", json, err);
  NEED(dllm_loader_new(data, opts, &loader, err), err);
  dllm_options_release(opts);
  return loader;
}

dllm_trainer* make_trainer(dllm_model* model, const char* json, dllm_error* err) {
  dllm_trainer* trainer = NULL;
  dllm_objective* objective = NULL;
  dllm_options* opts = make_options("trainer", json, err);
  NEED(dllm_objective_new("mdlm", NULL, NULL, &objective, err), err);
  NEED(dllm_trainer_new(model, objective, opts, &trainer, err), err);
  dllm_objective_release(objective); /* the trainer keeps it */
  dllm_options_release(opts);
  return trainer;
}

void open_world(struct world* world, int64_t threads) {
  world->err = dllm_error_new();
  world->engine = make_engine(threads, world->err);
  world->tok = make_tokenizer(world->err);
  world->data = make_dataset(world->tok, world->err);
  world->model = make_model(world->engine, world->tok, 32, 2, world->err);
  NEED(dllm_model_i64(world->model, "mask_id", &world->mask_id, world->err), world->err);
}

void close_world(struct world* world) {
  dllm_engine_release(world->engine);
  dllm_tokenizer_release(world->tok);
  dllm_dataset_release(world->data);
  dllm_model_release(world->model);
  dllm_error_release(world->err);
}
