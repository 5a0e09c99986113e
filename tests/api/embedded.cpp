// What a program that embeds the library relies on: no thread is left after the last release, a
// model from memory is that of its files, and the engine's limit of memory holds.

#include "check.h"

#include "dllm/dllm.hpp"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>

namespace {

namespace fs = std::filesystem;

int64_t threads_of_this_process() {
  const auto tasks = fs::directory_iterator("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

// A thread that was joined is in /proc a moment longer.
bool falls_to(int64_t threads) {
  for (int tries = 0; tries < 2000 && threads_of_this_process() > threads; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return threads_of_this_process() == threads;
}

dllm::Dataset documents(const dllm::Tokenizer* tokenizer) {
  dllm::Dataset data(tokenizer);
  for (int i = 0; i < 100; ++i)
    data.add_text("the cat sat on the mat and looked at the moon number " + std::to_string(i % 7));
  return data;
}

struct Parts {
  dllm::Tokenizer tokenizer = dllm::Tokenizer::train(documents(nullptr), {{"vocab_size", 290}});
  dllm::Engine engine{{{"threads", 4}}};
  dllm::Model model = dllm::Model::from_config(
      engine,
      R"({"model_type": "llama", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "vocab_size": )" +
          std::to_string(tokenizer.size()) +
          R"(, "dllm": {"attention": "bidirectional", "mask_token_id": )" +
          std::to_string(tokenizer.id("mask")) + "}}");
};

std::vector<int32_t> written(const dllm::Model& model) {
  dllm::Decoder decoder(model, {{"steps", 4}, {"gen_length", 8}});
  decoder.start({}, 7);
  decoder.run();
  return decoder.ids();
}

// Every part of the library that starts threads: the engine's pool, a loader that works ahead, a
// run that saves in the background, a decoder that is released in the middle of a step.
void test_threads(const fs::path& folder) {
  const int64_t before = threads_of_this_process();
  int64_t most = 0;
  {
    Parts parts;
    dllm::Dataset data = documents(&parts.tokenizer);
    dllm::Loader loader(data, {{"batch", 4}, {"length", 32}, {"epochs", 0}});
    dllm::Trainer trainer(parts.model, dllm::Objective("mdlm"),
                          {{"root", (folder / "run").string()}, {"save_every", 2}});
    trainer.run(loader, 4);
    dllm::Decoder decoder(parts.model, {{"steps", 4}, {"gen_length", 32}});
    decoder.start({}, 7);
    decoder.step_for(std::chrono::milliseconds(0));
    most = threads_of_this_process();
    parts.engine.reset(); // the model keeps it
    parts.model.reset();
  }
  std::printf("# %d threads before, %d at work\n", static_cast<int>(before),
              static_cast<int>(most));
  CHECK(most >= before + 4); // three of the pool, one of the decoder
  CHECK(falls_to(before));
}

void test_memory_files(const fs::path& folder) {
  const Parts parts;
  dllm::Model copy = dllm::Model::from_config(parts.engine, parts.model.config());
  copy.set_tokenizer(parts.tokenizer);
  copy.save((folder / "model").string());
  std::map<std::string, std::string> bytes; // outlive what is loaded from them
  for (const auto& entry : fs::directory_iterator(folder / "model")) {
    std::ifstream file(entry.path(), std::ios::binary);
    bytes[entry.path().filename().string()] = {std::istreambuf_iterator<char>(file), {}};
  }
  fs::remove_all(folder / "model");
  dllm::Source borrowed, copied;
  for (const auto& [name, content] : bytes) {
    borrowed.lend(name, std::as_bytes(std::span<const char>(content.data(), content.size())));
    copied.add(name, content);
  }
  CHECK(bytes.size() >= 3);
  const std::vector<int32_t> wanted = written(copy);
  CHECK(written(dllm::Model::load(parts.engine, borrowed)) == wanted);
  CHECK(written(dllm::Model::load(parts.engine, copied)) == wanted);
  CHECK(dllm::Tokenizer::load(copied).encode("the cat") == parts.tokenizer.encode("the cat"));
}

// The same decoding under a limit that leaves a quarter above its peak, and under one without room
// for it.
void test_memory_limit() {
  Parts parts;
  const std::vector<int32_t> wanted = written(parts.model);
  const int64_t peak = parts.engine.i64("memory_peak");
  parts.engine.trim();
  const int64_t enough = peak + peak / 4; // what is planned is a little more than what is used
  parts.engine.set_i64("memory_limit", enough);
  CHECK(written(parts.model) == wanted);
  CHECK(parts.engine.i64("memory_peak") <= enough);
  parts.engine.trim();
  const int64_t limit = parts.engine.i64("memory_used") + 4096;
  parts.engine.set_i64("memory_limit", limit);
  const auto refused = dllm::attempt([&] {
    dllm::Decoder decoder(parts.model, {{"steps", 4}, {"gen_length", 48}});
    decoder.start({}, 7);
    decoder.run();
  });
  CHECK(!refused && refused.error().status() == DLLM_RESOURCE_EXHAUSTED);
  if (!refused) std::printf("# %s\n", refused.error().what());
  CHECK(parts.engine.i64("memory_used") <= limit);
  parts.engine.set_i64("memory_limit", 0);
  CHECK(written(parts.model) == wanted);
}

} // namespace

int main() {
  const fs::path folder = fs::temp_directory_path() / ("dllm_embedded_" + std::to_string(getpid()));
  fs::create_directories(folder);
  try {
    test_threads(folder);
    test_memory_files(folder);
    test_memory_limit();
  } catch (const dllm::Error& error) {
    std::printf("not ok - %s; %s\n", error.what(), error.hint().c_str());
    ++failures;
  }
  fs::remove_all(folder);
  std::printf("# %d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
