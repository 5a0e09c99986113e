#ifndef DLLM_TESTS_HEADER_EXAMPLES_H
#define DLLM_TESTS_HEADER_EXAMPLES_H
/* The names that examples in include/dllm leave out.
 * They are compiled, not run (header_pages.py). */
#include <dllm/dllm.h>
#include <stdio.h>
#include <stdlib.h>

/* One object of each noun, by the names that the examples have. */
extern dllm_engine* engine;
extern dllm_model *model, *teacher;
extern dllm_tokenizer* tok;
extern dllm_dataset* data;
extern dllm_loader* loader;
extern dllm_batch *batch, *result, *prepared;
extern dllm_schedule* schedule;
extern dllm_objective* objective;
extern dllm_trainer* trainer;
extern dllm_decoder* decoder;
extern dllm_source* source;
extern dllm_tensor *tensor, *logits;
extern dllm_options *opts, *loader_opts, *objective_opts;
extern dllm_task* task;
extern dllm_buffer *dir, *answer;
extern dllm_lua* lua;
extern dllm_error* err;

extern const char *path, *text;
extern const uint8_t *config, *weights;
extern uint8_t* states;
extern float* values;
extern int32_t *ids, *prompt;
extern int64_t config_size, weights_size, prompt_count, count, room, size, step;
extern double loss;

/* Functions of the host. */
int fail(dllm_error* error);
int no(const char* reason);
int start_thread(void* (*run)(void*), void* argument);
void* watch(void* argument);
extern struct host { int anything; } host;
void* my_allocate(int64_t bytes, int64_t alignment, void* user_data);
void my_free(void* memory, int64_t bytes, void* user_data);
void my_parallel(int64_t jobs, dllm_chunk_fn chunk, void* job, void* user_data);
void my_log(int32_t level, const char* line, void* user_data);
#endif
