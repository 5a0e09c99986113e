/* Long calls that another thread cancels: how soon they return, and that the objects go on. */
#define _POSIX_C_SOURCE 200809L
#include "world.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct cancel {
  dllm_task* task;
  int64_t after_ms;
  double at_ms; /* when it was cancelled */
};

static double now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

static void* cancel_later(void* data) {
  struct cancel* cancel = (struct cancel*)data;
  struct timespec wait = {cancel->after_ms / 1000, cancel->after_ms % 1000 * 1000000};
  nanosleep(&wait, NULL);
  cancel->at_ms = now_ms();
  dllm_task_cancel(cancel->task);
  return NULL;
}

typedef dllm_status (*long_call)(void* object, dllm_task* task, dllm_error* err);

/* How long it took is printed (goal: 50 ms), not asserted: sanitizers and other work on the machine
 * stretch it. What is asserted is work, below. */
static void test_cancel(const char* what, long_call call, void* object, int64_t after_ms,
                        dllm_error* err) {
  struct cancel cancel = {dllm_task_new(), after_ms, 0};
  pthread_t thread;
  dllm_status status;
  double took;
  pthread_create(&thread, NULL, cancel_later, &cancel);
  status = call(object, cancel.task, err);
  took = now_ms() - cancel.at_ms;
  pthread_join(thread, NULL);
  printf("# %s: returned %.1f ms after the cancel\n", what, took);
  CHECK(status == DLLM_CANCELLED);
  CHECK(dllm_error_code(err) == DLLM_CANCELLED);
  CHECK(dllm_task_is_cancelled(cancel.task) == 1);
  /* A cancelled task stays cancelled. */
  CHECK(call(object, cancel.task, err) == DLLM_CANCELLED);
  dllm_task_release(cancel.task);
}

struct training {
  dllm_trainer* trainer;
  dllm_loader* loader;
};

static dllm_status train_for_ever(void* object, dllm_task* task, dllm_error* err) {
  struct training* t = (struct training*)object;
  return dllm_trainer_run(t->trainer, t->loader, 1000000, NULL, NULL, task, err);
}

static dllm_status step_for_ever(void* object, dllm_task* task, dllm_error* err) {
  struct training* t = (struct training*)object;
  for (;;) {
    dllm_batch* batch = NULL;
    dllm_status status = dllm_loader_next(t->loader, &batch, err);
    if (status == DLLM_OK) status = dllm_trainer_step(t->trainer, batch, task, NULL, err);
    dllm_batch_release(batch);
    if (status != DLLM_OK) return status;
  }
}

static dllm_status decode_for_ever(void* object, dllm_task* task, dllm_error* err) {
  return dllm_decoder_run((dllm_decoder*)object, NULL, NULL, task, err);
}

/* A task that is late after a millisecond, so that it passes inside of the first piece of work or
 * before it. */
static dllm_task* soon_late(void) {
  dllm_task* task = dllm_task_new();
  dllm_task_set_deadline(task, 1);
  return task;
}

/* A run gives up the step it is in: none is counted, and the loader hands its batch out again. */
static void test_run_takes_no_step(struct training* t, dllm_error* err) {
  dllm_task* task = soon_late();
  double before = 0, after = 0;
  NEED(dllm_trainer_metric(t->trainer, "step", &before, err), err);
  CHECK(dllm_trainer_run(t->trainer, t->loader, 1, NULL, NULL, task, err) ==
        DLLM_DEADLINE_EXCEEDED);
  NEED(dllm_trainer_metric(t->trainer, "step", &after, err), err);
  CHECK(after == before);
  NEED(dllm_trainer_run(t->trainer, t->loader, 1, NULL, NULL, NULL, err), err);
  NEED(dllm_trainer_metric(t->trainer, "step", &after, err), err);
  CHECK(after == before + 1);
  dllm_task_release(task);
}

/* The first tensor has 16 million numbers: a new model stops inside of it. */
static void test_new_model_stops_inside_a_tensor(dllm_engine* engine, dllm_error* err) {
  const char* config =
      "{\"model_type\": \"llama\", \"vocab_size\": 32000, \"hidden_size\": 512,"
      " \"intermediate_size\": 512, \"num_hidden_layers\": 1, \"num_attention_heads\": 4,"
      " \"max_position_embeddings\": 64, \"tie_word_embeddings\": true,"
      " \"dllm\": {\"attention\": \"bidirectional\", \"mask_token_id\": 0}}";
  dllm_task* task = soon_late();
  dllm_model* model = NULL;
  int64_t done = 0, total = 0;
  CHECK(dllm_model_new(engine, config, (int64_t)strlen(config), NULL, task, &model, err) ==
        DLLM_DEADLINE_EXCEEDED);
  CHECK(model == NULL);
  dllm_task_progress(task, &done, &total);
  CHECK(done == 0);
  dllm_task_release(task);
}

static void test_text(const dllm_tokenizer* tok, dllm_error* err) {
  const int64_t size = 8 << 20;
  const char* chat = "[{\"role\": \"user\", \"content\": \"Hi\"}]";
  char* text = (char*)malloc((size_t)size);
  dllm_task* task = soon_late();
  dllm_options* opts = make_options(
      "chat", "{\"template\": \"{% for m in messages %}{{ m.content }}{% endfor %}\"}", err);
  dllm_batch* row = NULL;
  dllm_batch* ids = NULL;
  memset(text, 'x', (size_t)size);
  CHECK(dllm_tokenizer_encode_task(tok, text, size, task, &ids, err) == DLLM_DEADLINE_EXCEEDED);
  CHECK(ids == NULL);
  NEED(dllm_tokenizer_encode_task(tok, text, 10, NULL, &ids, err), err);
  dllm_batch_release(ids);
  dllm_task_cancel(task);
  CHECK(dllm_tokenizer_chat_task(tok, chat, (int64_t)strlen(chat), opts, task, &row, err) ==
        DLLM_CANCELLED);
  CHECK(row == NULL);
  NEED(dllm_tokenizer_chat_task(tok, chat, (int64_t)strlen(chat), opts, NULL, &row, err), err);
  dllm_batch_release(row);
  dllm_options_release(opts);
  dllm_task_release(task);
  free(text);
}

static void test_deadline(dllm_decoder* decoder, dllm_error* err) {
  dllm_task* task = dllm_task_new();
  dllm_task_set_deadline(task, 0);
  CHECK(dllm_decoder_run(decoder, NULL, NULL, task, err) == DLLM_DEADLINE_EXCEEDED);
  dllm_task_release(task);
}

static dllm_status latest_for_ever(void* place, dllm_task* task, dllm_error* err) {
  dllm_buffer* dir = dllm_buffer_new();
  const dllm_status status = dllm_checkpoint_latest_task((const char*)place, task, dir, err);
  CHECK(dllm_buffer_size(dir) == 0);
  dllm_buffer_release(dir);
  return status;
}

static dllm_status open_for_ever(void* place, dllm_task* task, dllm_error* err) {
  dllm_checkpoint* weights = NULL;
  const dllm_status status = dllm_checkpoint_open_task((const char*)place, task, &weights, err);
  CHECK(weights == NULL);
  return status;
}

static dllm_status load_for_ever(void* place, dllm_task* task, dllm_error* err) {
  dllm_tokenizer* tok = NULL;
  const dllm_status status = dllm_tokenizer_load_task((const char*)place, NULL, task, &tok, err);
  CHECK(tok == NULL);
  return status;
}

static dllm_status quantize_for_ever(void* place, dllm_task* task, dllm_error* err) {
  dllm_buffer* report = dllm_buffer_new();
  const dllm_status status =
      dllm_model_quantize((const char*)place, "quantized.gguf", NULL, task, report, err);
  dllm_buffer_release(report);
  return status;
}

static dllm_engine* store_engine;
static dllm_status model_for_ever(void* place, dllm_task* task, dllm_error* err) {
  dllm_model* model = NULL;
  const dllm_status status =
      dllm_model_load(store_engine, (const char*)place, NULL, task, &model, err);
  CHECK(model == NULL);
  return status;
}

static dllm_status plan_for_ever(void* place, dllm_task* task, dllm_error* err) {
  dllm_buffer* plan = dllm_buffer_new();
  const dllm_status status =
      dllm_engine_plan(store_engine, (const char*)place, NULL, task, plan, err);
  dllm_buffer_release(plan);
  return status;
}

static dllm_status data_for_ever(void* place, dllm_task* task, dllm_error* err) {
  dllm_dataset* data = NULL;
  const dllm_status status = dllm_dataset_open((const char*)place, NULL, NULL, task, &data, err);
  CHECK(data == NULL);
  return status;
}

/* An object store that takes connections and never answers. */
static int silent_store(char* url, size_t room) {
  struct sockaddr_in address;
  socklen_t size = sizeof address;
  const int server = socket(AF_INET, SOCK_STREAM, 0);
  memset(&address, 0, sizeof address);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(bind(server, (struct sockaddr*)&address, size) == 0);
  CHECK(listen(server, 64) == 0);
  CHECK(getsockname(server, (struct sockaddr*)&address, &size) == 0);
  snprintf(url, room, "http://127.0.0.1:%d", (int)ntohs(address.sin_port));
  return server;
}

static void test_store(dllm_engine* engine, dllm_error* err) {
  char url[64], place[] = "s3://bucket/run";
  const int server = silent_store(url, sizeof url);
  dllm_task* late = dllm_task_new();
  setenv("AWS_ENDPOINT_URL", url, 1);
  setenv("AWS_ACCESS_KEY_ID", "a", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "b", 1);
  dllm_task_set_deadline(late, 50);
  if (open_for_ever(place, late, err) != DLLM_DEADLINE_EXCEEDED) {
    CHECK(strstr(dllm_error_message(err), "libcurl") != NULL);
    printf("# object stores are not tried: this system has no libcurl\n");
  } else {
    test_cancel("finding a checkpoint in a store", latest_for_ever, place, 100, err);
    test_cancel("opening a checkpoint of a store", open_for_ever, place, 100, err);
    test_cancel("opening a tokenizer of a store", load_for_ever, place, 100, err);
    test_cancel("quantizing a model of a store", quantize_for_ever, place, 100, err);
    store_engine = engine;
    test_cancel("loading a model of a store", model_for_ever, place, 100, err);
    test_cancel("planning a model of a store", plan_for_ever, place, 100, err);
    test_cancel("looking for text in a store", data_for_ever, place, 100, err);
  }
  dllm_task_release(late);
  close(server);
}

int main(void) {
  struct world w;
  struct training t;
  dllm_model* model;
  dllm_decoder* decoder = NULL;
  dllm_options* opts;
  double steps = 0, loss = 0;
  dllm_batch* batch = NULL;
  open_world(&w, 2);
  /* One step takes longer than 50 ms: the cancel must come through inside of it. The first step
   * also makes the program. */
  model = make_model(w.engine, w.tok, 128, 4, w.err);
  t.trainer = make_trainer(model, NULL, w.err);
  t.loader = make_loader(w.data, "{\"batch\": 8, \"length\": 128, \"epochs\": 0}", w.err);
  NEED(dllm_trainer_run(t.trainer, t.loader, 1, NULL, NULL, NULL, w.err), w.err);
  test_cancel("training", train_for_ever, &t, 300, w.err);
  test_cancel("a training step", step_for_ever, &t, 300, w.err);
  test_run_takes_no_step(&t, w.err);
  test_new_model_stops_inside_a_tensor(w.engine, w.err);
  test_text(w.tok, w.err);
  test_store(w.engine, w.err);
  NEED(dllm_loader_next(t.loader, &batch, w.err), w.err);
  NEED(dllm_trainer_metric(t.trainer, "step", &steps, w.err), w.err);
  NEED(dllm_trainer_step(t.trainer, batch, NULL, &loss, w.err), w.err);
  dllm_batch_release(batch);
  CHECK(loss > 0);
  CHECK(steps >= 1);

  opts = make_options("decoder", "{\"steps\": 500, \"gen_length\": 500, \"trace\": false}", w.err);
  NEED(dllm_decoder_new(model, opts, &decoder, w.err), w.err);
  NEED(dllm_decoder_start(decoder, NULL, 0, 1, w.err), w.err);
  test_cancel("decoding", decode_for_ever, decoder, 300, w.err);
  NEED(dllm_decoder_step(decoder, NULL, NULL, w.err), w.err);
  test_deadline(decoder, w.err);

  dllm_options_release(opts);
  dllm_decoder_release(decoder);
  dllm_loader_release(t.loader);
  dllm_trainer_release(t.trainer);
  dllm_model_release(model);
  close_world(&w);
  printf("# %d failures\n", failures);
  return failures != 0;
}
