// Every kind of handle made, used and released, many times over: the heap does not grow, and the
// leak checker of the address sanitizer finds nothing at the end.

#include "world.h"

#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

namespace {

namespace fs = std::filesystem;

int32_t count_events(const dllm_event* event, void* user_data) {
  *static_cast<int*>(user_data) += dllm_event_kind(event) > 0 ? 1 : 0;
  return DLLM_CONTINUE;
}

void use_source(const world& w, const std::string& root) {
  dllm_error* err = w.err;
  NEED(dllm_model_save(w.model, (root + "/model").c_str(), nullptr, nullptr, err), err);
  dllm_source* source = nullptr;
  dllm_model* model = nullptr;
  dllm_tensor* tensor = nullptr;
  dllm_checkpoint* weights = nullptr;
  NEED(dllm_source_new(&source, err), err);
  std::string files[2];
  const char* const names[] = {"config.json", "model.safetensors"};
  for (int i = 0; i < 2; ++i) {
    std::FILE* file = std::fopen((root + "/model/" + names[i]).c_str(), "rb");
    char buffer[4096];
    for (size_t size = 1; size > 0;)
      files[i].append(buffer, size = std::fread(buffer, 1, sizeof buffer, file));
    std::fclose(file);
    NEED(dllm_source_add(source, names[i], files[i].data(), static_cast<int64_t>(files[i].size()),
                         0, err),
         err);
  }
  NEED(dllm_model_load_source(w.engine, source, nullptr, nullptr, &model, err), err);
  NEED(dllm_model_param(model, dllm_model_param_name(model, 0), &tensor, err), err);
  NEED(dllm_checkpoint_open((root + "/model").c_str(), &weights, err), err);
  NEED(dllm_checkpoint_verify(weights, nullptr, err), err);
  dllm_checkpoint_release(weights);
  dllm_tensor_release(tensor);
  dllm_source_release(source); // the model keeps it
  dllm_model_release(model);
  // Refused half way: what was made until then is released.
  CHECK(dllm_model_load(w.engine, "/nothing/here", nullptr, nullptr, &model, err) != DLLM_OK);
  CHECK(dllm_checkpoint_open("/nothing/here", &weights, err) != DLLM_OK);
}

void use_training(const world& w, const std::string& root) {
  dllm_error* err = w.err;
  dllm_schedule* schedule = nullptr;
  dllm_objective* objective = nullptr;
  dllm_trainer* trainer = nullptr;
  dllm_model* average = nullptr;
  dllm_batch *batch = nullptr, *prepared = nullptr;
  dllm_task* task = dllm_task_new();
  int events = 0;
  NEED(dllm_schedule_new("cosine", nullptr, &schedule, err), err);
  int64_t mask = w.mask_id;
  dllm_options* mask_option = make_options("objective:mdlm", nullptr, err);
  NEED(dllm_options_set_i64(mask_option, "mask_id", mask, err), err);
  NEED(dllm_objective_new("mdlm", schedule, mask_option, &objective, err), err);
  dllm_options* opts = make_options("trainer", "{\"ema\": 0.9}", err);
  NEED(dllm_trainer_new(w.model, objective, opts, &trainer, err), err);
  NEED(dllm_trainer_add_sink(trainer, "jsonl", (root + "/metrics.jsonl").c_str(), nullptr, err),
       err);
  dllm_loader* loader = make_loader(w.data, "{\"batch\": 2, \"length\": 16, \"epochs\": 0}", err);
  NEED(dllm_trainer_run(trainer, loader, 2, count_events, &events, task, err), err);
  NEED(dllm_checkpoint_save(trainer, loader, (root + "/run").c_str(), nullptr, task, nullptr, err),
       err);
  NEED(dllm_trainer_model(trainer, "ema", &average, err), err);
  NEED(dllm_loader_next(loader, &batch, err), err);
  NEED(dllm_objective_prepare(objective, w.model, batch, 1, 1, &prepared, err), err);
  double loss = 0;
  NEED(dllm_objective_loss(objective, w.model, prepared, 1, task, &loss, err), err);
  dllm_batch* of_rows = nullptr;
  NEED(dllm_objective_row_losses(objective, w.model, prepared, 1, task, &of_rows, err), err);
  dllm_batch_release(of_rows);
  // A step that fails and one that is cancelled.
  dllm_batch* empty = nullptr;
  NEED(dllm_batch_new(&empty, err), err);
  CHECK(dllm_trainer_step(trainer, empty, nullptr, nullptr, err) != DLLM_OK);
  dllm_task_cancel(task);
  CHECK(dllm_trainer_step(trainer, batch, task, nullptr, err) == DLLM_CANCELLED);
  CHECK(events >= 2);
  dllm_batch_release(empty);
  dllm_batch_release(prepared);
  dllm_batch_release(batch);
  dllm_model_release(average);
  dllm_objective_release(objective);
  dllm_schedule_release(schedule);
  dllm_loader_release(loader);
  dllm_trainer_release(trainer);
  dllm_options_release(opts);
  dllm_options_release(mask_option);
  dllm_task_release(task);
}

void use_generation(const world& w) {
  dllm_error* err = w.err;
  dllm_generator* generator = nullptr;
  dllm_decoder* decoder = nullptr;
  dllm_model* model = nullptr;
  dllm_tokenizer* tok = nullptr;
  dllm_buffer* answer = dllm_buffer_new();
  int64_t number = 0;
  dllm_options* request = make_options("request", R"({"steps": 4, "length": 8})", err);
  NEED(dllm_generator_new(w.model, w.tok, nullptr, &generator, err), err);
  NEED(dllm_generator_add(generator, request, nullptr, &number, err), err);
  NEED(dllm_generator_step(generator, nullptr, nullptr, err), err);
  NEED(dllm_generator_decoder(generator, &decoder, err), err);
  NEED(dllm_generator_model(generator, &model, err), err);
  NEED(dllm_generator_tokenizer(generator, &tok, err), err);
  CHECK(dllm_decoder_step(decoder, nullptr, nullptr, err) == DLLM_FAILED_PRECONDITION);
  NEED(dllm_generator_text(generator, number, "canvas", answer, err), err);
  dllm_generator_release(generator); // its parts stay
  double open = 0;
  NEED(dllm_decoder_metric(decoder, number, "open", &open, err), err);
  CHECK(open > 0);
  dllm_decoder_release(decoder);
  dllm_model_release(model);
  dllm_tokenizer_release(tok);
  dllm_buffer_release(answer);
  dllm_options_release(request);
}

void use_decoding(const world& w) {
  dllm_error* err = w.err;
  dllm_decoder* decoder = nullptr;
  dllm_buffer* trace = dllm_buffer_new();
  dllm_options* opts =
      make_options("decoder", "{\"steps\": 4, \"gen_length\": 8, \"trace\": true}", err);
  NEED(dllm_decoder_new(w.model, opts, &decoder, err), err);
  NEED(dllm_decoder_start(decoder, nullptr, 0, 1, err), err);
  NEED(dllm_decoder_step(decoder, nullptr, nullptr, err), err); // released while it is not done
  NEED(dllm_decoder_trace(decoder, 0, trace, err), err);
  dllm_decoder_release(decoder);
  dllm_buffer_release(trace);
  dllm_options_release(opts);
}

void use_answer(const world& w) {
  dllm_error* err = w.err;
  dllm_answer* answer = nullptr;
  dllm_buffer* text = dllm_buffer_new();
  const int32_t ids[3] = {260, 261, 262};
  const uint8_t states[3] = {DLLM_FIXED, DLLM_FINAL, DLLM_MASKED};
  int64_t ends[3] = {}, count = 0;
  dllm_options* opts = make_options("answer", R"({"begin": 1, "stop_texts": ["the end"]})", err);
  NEED(dllm_answer_new(w.tok, opts, &answer, err), err);
  NEED(dllm_answer_update(answer, ids, states, 3, nullptr, err), err);
  NEED(dllm_answer_next(answer, text, err), err);
  NEED(dllm_answer_cells(answer, text, ends, 3, &count, err), err);
  CHECK(dllm_answer_update(answer, ids, nullptr, 3, nullptr, err) == DLLM_INVALID_ARGUMENT);
  dllm_answer_release(answer);
  dllm_options_release(opts);
  dllm_buffer_release(text);
}

void use_lua(dllm_error* err) {
  dllm_lua* lua = nullptr;
  dllm_buffer* answer = dllm_buffer_new();
  const char* const code =
      "local e = dllm.engine{threads = 1}\nreturn {e ~= nil, string.rep('x', 100)}";
  if (dllm_lua_new(nullptr, &lua, err) == DLLM_OK) {
    dllm_lua_run_text(lua, "leaks", code, static_cast<int64_t>(std::strlen(code)), nullptr, answer,
                      err);
    CHECK(dllm_lua_run_text(lua, "fails", "error('x')", 10, nullptr, answer, err) ==
          DLLM_SCRIPT_FAILED);
  }
  dllm_buffer_release(answer);
  dllm_lua_release(lua);
}

void one_life(const std::string& root) {
  fs::remove_all(root);
  fs::create_directories(root);
  world w{};
  open_world(&w, 2);
  use_source(w, root);
  use_training(w, root);
  use_decoding(w);
  use_generation(w);
  use_answer(w);
  use_lua(w.err);
  NEED(dllm_engine_trim(w.engine, w.err), w.err);
  close_world(&w);
}

// malloc counts what its caches of freed pieces hold as used. Those caches are set once, when a
// process begins.
void start_again_without_caches(char** argv) {
  if (std::getenv("GLIBC_TUNABLES") != nullptr) return;
  ::setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0", 1);
  ::execv("/proc/self/exe", argv);
}

} // namespace

int main(int, char** argv) {
  start_again_without_caches(argv);
  std::string pattern = "/tmp/dllm_handles_XXXXXX";
  const std::string root = ::mkdtemp(pattern.data());
  // Tables that are made once stay; after two lives they are all there.
  for (int i = 0; i < 2; ++i) one_life(root);
  const size_t before = mallinfo2().uordblks;
  constexpr int kLives = 6;
  for (int i = 0; i < kLives; ++i) one_life(root);
  const size_t after = mallinfo2().uordblks;
  const auto grown = static_cast<long long>(after) - static_cast<long long>(before);
  std::printf("# the heap grew by %lld bytes in %d lives\n", grown, kLives);
  CHECK(grown < 1024); // 0 on glibc 2.36
  fs::remove_all(root);
  std::printf("# %d failures\n", failures);
  return failures != 0;
}
