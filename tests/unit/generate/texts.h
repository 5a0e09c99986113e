#pragma once
// A tiny model with a tokenizer of characters, for the tests of generation.

#include "base/files.h"
#include "cpu/engine.h"
#include "generate/generator.h"
#include "generate/request_options.h"
#include "graph/engine.h"
#include "text/tokenizer.h"

#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <vector>

namespace dllm::generate {

constexpr int kLetters = 26;
constexpr int32_t kEnd = 27, kMask = 28; // after the letters and the space

// One token per letter, a space, "<end>", "<mask>", and two more for a chat template.
// A tokenizer of these pieces, in this order, and then of the special tokens. The first two of them
// are the end and the mask.
inline std::shared_ptr<text::Tokenizer> tokenizer_of(const std::vector<std::string>& pieces,
                                                     const std::vector<std::string>& special,
                                                     const std::string& chat_template = "") {
  Json vocabulary = Json::object(), added = Json::array();
  int32_t id = 0;
  for (const std::string& piece : pieces) vocabulary[piece] = id++;
  for (const std::string& name : special) {
    added.push_back({{"id", id}, {"content", name}, {"special", true}});
    vocabulary[name] = id++;
  }
  const Json file = {{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}},
                     {"added_tokens", added},
                     {"decoder", {{"type", "Fuse"}}}};
  MemorySource source;
  const std::string json = file.dump();
  source.add("tokenizer.json", json.data(), json.size(), true);
  Options options(text::tokenizer_schema());
  options.set_json({{"eos", special[0]}, {"mask", special[1]}, {"chat_template", chat_template}});
  return text::Tokenizer::load(source, options);
}

inline std::shared_ptr<text::Tokenizer> letters(const std::string& chat_template = "") {
  std::vector<std::string> pieces;
  for (int i = 0; i < kLetters; ++i) pieces.emplace_back(1, static_cast<char>('a' + i));
  pieces.emplace_back(" ");
  return tokenizer_of(pieces, {"<end>", "<mask>", "<user>", "<bot>"}, chat_template);
}

inline std::shared_ptr<model::Model> small_model(const Json& generation = Json::object(),
                                                 const char* family = "a2d-llama",
                                                 int64_t mask = kMask, int64_t vocab = 32) {
  Json config = {
      {"model_type", family},     {"vocab_size", vocab},           {"hidden_size", 24},
      {"num_hidden_layers", 2},   {"num_attention_heads", 4},      {"num_key_value_heads", 2},
      {"intermediate_size", 40},  {"max_position_embeddings", 96}, {"tie_word_embeddings", false},
      {"initializer_range", 0.4}, {"mask_token_id", mask}};
  if (mask < 0) config.erase("mask_token_id");
  Options options(graph::engine_schema());
  options.set_i64("threads", 1);
  auto model = model::new_model(cpu::make_engine(options), config, Options(model::model_schema()));
  const auto json = std::make_shared<const std::string>(generation.dump());
  model->set_side_file("generation_config.json", Bytes(json->data(), json->size(), json));
  return model;
}

inline Options request(const Json& values) {
  const std::string policy = values.value("policy", std::string(kAutomatic));
  Options options(request_schema(policy == kAutomatic ? "" : policy));
  options.set_json(values);
  return options;
}

inline Options settings(const Json& values = Json::object()) {
  Options options(generator_schema());
  options.set_json(values);
  return options;
}

} // namespace dllm::generate
