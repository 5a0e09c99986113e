#ifndef DLLM_TESTS_WORLD_H
#define DLLM_TESTS_WORLD_H
/* A tokenizer, a little text and a tiny model, made through the public headers alone. */
#include "check.h"

#ifdef __cplusplus
extern "C" {
#endif

struct world {
  dllm_error* err;
  dllm_engine* engine;
  dllm_tokenizer* tok;
  dllm_dataset* data; /* ids */
  dllm_model* model;
  int64_t mask_id;
};

/* Everything of the kind with these keys set; json NULL: defaults. */
dllm_options* make_options(const char* kind, const char* json, dllm_error* err);
dllm_engine* make_engine(int64_t threads, dllm_error* err);
/* A llama of this width and depth with the vocabulary of tok. */
dllm_model* make_model(dllm_engine* engine, const dllm_tokenizer* tok, int64_t hidden,
                       int64_t layers, dllm_error* err);
dllm_loader* make_loader(dllm_dataset* data, const char* json, dllm_error* err);
dllm_trainer* make_trainer(dllm_model* model, const char* json, dllm_error* err);

void open_world(struct world* world, int64_t threads);
void close_world(struct world* world);

#ifdef __cplusplus
}
#endif
#endif
