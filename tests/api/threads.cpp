// Several host threads at once: decoders of one model, engines of their own, a task watched from
// another thread. The tokens are those of a lone decoder.

#include "world.h"

#include <array>
#include <thread>
#include <vector>

namespace {

using Tokens = std::vector<int32_t>;

Tokens decode(dllm_model* model, int64_t seed) {
  dllm_error* err = dllm_error_new();
  dllm_options* opts =
      make_options("decoder", R"({"steps": 6, "gen_length": 24, "temperature": 1.0})", err);
  dllm_decoder* decoder = nullptr;
  NEED(dllm_decoder_new(model, opts, &decoder, err), err);
  const std::array<int32_t, 3> prompt = {5, 6, 7};
  NEED(dllm_decoder_start(decoder, prompt.data(), 3, seed, err), err);
  NEED(dllm_decoder_run(decoder, nullptr, nullptr, nullptr, err), err);
  Tokens ids(64);
  int64_t count = 0;
  NEED(dllm_decoder_ids(decoder, 0, ids.data(), 64, &count, err), err);
  ids.resize(static_cast<size_t>(count));
  dllm_decoder_release(decoder);
  dllm_options_release(opts);
  dllm_error_release(err);
  return ids;
}

// models[i % models.size()] decodes seed i on thread i.
std::vector<Tokens> decode_together(const std::vector<dllm_model*>& models, size_t threads) {
  std::vector<Tokens> made(threads);
  std::vector<std::thread> running;
  for (size_t i = 0; i < threads; ++i) {
    running.emplace_back([&models, &made, i] {
      made[i] = decode(models[i % models.size()], static_cast<int64_t>(i));
    });
  }
  for (std::thread& thread : running) thread.join();
  return made;
}

void test_one_model(const world& w, const std::vector<Tokens>& alone) {
  CHECK(decode_together({w.model}, alone.size()) == alone);
}

void test_two_engines(const world& w, const std::vector<Tokens>& alone) {
  dllm_engine* other = make_engine(3, w.err);
  dllm_model* twin = make_model(other, w.tok, 32, 2, w.err); // same config and seed: same weights
  CHECK(decode_together({w.model, twin}, alone.size()) == alone);
  dllm_engine_release(other);
  dllm_model_release(twin);
}

// A tokenizer never changes, errors and buffers are per thread.
void test_tokenizer(const world& w) {
  const std::string text = "the dog sat on the log";
  std::vector<std::thread> running;
  std::array<bool, 4> same{};
  for (bool& good : same) {
    running.emplace_back([&w, &text, &good] {
      std::array<int32_t, 64> ids{};
      int64_t count = 0;
      dllm_buffer* back = dllm_buffer_new();
      good = true;
      for (int i = 0; i < 50; ++i) {
        good = good && dllm_tokenizer_encode(w.tok, text.data(), static_cast<int64_t>(text.size()),
                                             ids.data(), 64, &count, nullptr) == DLLM_OK;
        good = good && dllm_tokenizer_decode(w.tok, ids.data(), count, back, nullptr) == DLLM_OK;
        good = good && text == static_cast<const char*>(dllm_buffer_data(back));
      }
      dllm_buffer_release(back);
    });
  }
  for (std::thread& thread : running) thread.join();
  CHECK(same[0] && same[1] && same[2] && same[3]);
}

// Training in one thread, its task watched and cancelled from another.
void test_watched_training(const world& w) {
  dllm_task* task = dllm_task_new();
  dllm_trainer* trainer = make_trainer(w.model, nullptr, w.err);
  dllm_loader* loader = make_loader(w.data, R"({"batch": 4, "length": 32, "epochs": 0})", w.err);
  std::thread watcher([task] {
    int64_t done = 0;
    while (done < 2) {
      dllm_task_progress(task, &done, nullptr);
      std::this_thread::yield();
    }
    dllm_task_cancel(task);
  });
  const dllm_status status =
      dllm_trainer_run(trainer, loader, 100000, nullptr, nullptr, task, w.err);
  watcher.join();
  CHECK(status == DLLM_CANCELLED);
  dllm_loader_release(loader);
  dllm_trainer_release(trainer);
  dllm_task_release(task);
}

} // namespace

int main() {
  world w{};
  open_world(&w, 2);
  std::vector<Tokens> alone;
  for (int64_t seed = 0; seed < 6; ++seed) alone.push_back(decode(w.model, seed));
  CHECK(alone[0].size() == 27 && alone[0] != alone[1]);
  test_one_model(w, alone);
  test_two_engines(w, alone);
  test_tokenizer(w);
  test_watched_training(w);
  close_world(&w);
  std::printf("# %d failures\n", failures);
  return failures != 0;
}
