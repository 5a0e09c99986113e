#include "clients.h"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace dllm::hostile {

Folder::Folder() {
  std::string pattern =
      (::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") + std::string("/dllm_hostile_XXXXXX");
  path_ = ::mkdtemp(pattern.data());
}
Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}
std::string Folder::write(const std::string& name, const std::string& bytes) const {
  const std::string whole = path(name);
  std::ofstream(whole, std::ios::binary) << bytes;
  return whole;
}

std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const char* const kTinyConfig =
    R"({"model_type": "llama", "vocab_size": 40, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
 "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "hidden_act": "silu",
 "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true,
 "initializer_range": 0.1, "dllm": {"attention": "bidirectional", "mask_token_id": 3}})";

Options options_of(const char* kind, const std::string& json) {
  auto opts =
      make<Options>([&](auto** out) { return dllm_options_new(kind, out, shared_error()); });
  must(dllm_options_set_json(opts.get(), json.data(), size_of(json), shared_error()));
  return opts;
}

Engine small_engine() {
  const Options opts = options_of("engine", R"({"threads": 1})");
  return make<Engine>([&](auto** out) { return dllm_engine_new(opts.get(), out, shared_error()); });
}

Model tiny_model(dllm_engine* engine) {
  const std::string config = kTinyConfig;
  return make<Model>([&](auto** out) {
    return dllm_model_new(engine, config.data(), size_of(config), nullptr, nullptr, out,
                          shared_error());
  });
}

std::string tiny_tokenizer_json() {
  const auto text = make<Dataset>(
      [](auto** out) { return dllm_dataset_new(nullptr, nullptr, out, shared_error()); });
  const std::string document =
      R"({"text": "the cat sat on the mat and the dog sat on the log of the mat"})";
  for (int i = 0; i < 8; ++i)
    must(dllm_dataset_add(text.get(), document.data(), size_of(document), shared_error()));
  const Options opts = options_of("tokenizer_train", R"({"vocab_size": 290})");
  const auto tokenizer = make<Tokenizer>([&](auto** out) {
    return dllm_tokenizer_train(text.get(), opts.get(), nullptr, out, shared_error());
  });
  const Folder folder;
  must(dllm_tokenizer_save(tokenizer.get(), folder.path("tokenizer.json").c_str(), shared_error()));
  return read_bytes(folder.path("tokenizer.json"));
}

Tokenizer tokenizer_of(const std::string& json) {
  const auto source = make<Source>([](auto** out) { return dllm_source_new(out, shared_error()); });
  must(dllm_source_add(source.get(), "tokenizer.json", json.data(), size_of(json), 0,
                       shared_error()));
  return make<Tokenizer>([&](auto** out) {
    return dllm_tokenizer_load_source(source.get(), nullptr, out, shared_error());
  });
}

void read_weights(const std::string& path) {
  const auto weights = make<Checkpoint>(
      [&](auto** out) { return dllm_checkpoint_open(path.c_str(), out, shared_error()); });
  const Buffer text(dllm_buffer_new());
  must(dllm_checkpoint_describe(weights.get(), text.get(), shared_error()));
  const auto described =
      nlohmann::json::parse(static_cast<const char*>(dllm_buffer_data(text.get())));
  for (const auto& row : described.at("tensors")) {
    const std::string name = row.at("name").get<std::string>();
    const auto tensor = make<Tensor>([&](auto** out) {
      return dllm_checkpoint_tensor(weights.get(), name.c_str(), out, shared_error());
    });
    if (dllm_tensor_dtype(tensor.get()) == 0)
      throw Refusal{DLLM_INTERNAL, "a tensor without a type"};
  }
  must(dllm_checkpoint_verify(weights.get(), nullptr, shared_error()));
}

} // namespace dllm::hostile
