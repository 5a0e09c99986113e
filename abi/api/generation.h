#pragma once
// What generators and queues share: a model that is loaded with its tokenizer, names of texts.

#include "handles.h"

#include <memory>

namespace dllm::abi {

struct ModelWithTokenizer {
  std::shared_ptr<dllm::model::Model> model;
  std::shared_ptr<const dllm::text::Tokenizer> tokenizer; // encodes prompts with their start
};

// The arguments of dllm_generator_load. engine: null for a new one with its defaults.
ModelWithTokenizer load_with_tokenizer(const char* path, dllm_engine* engine,
                                       const dllm_options* model_opts, dllm_task* task);

// Returns the part of a text of this name. Fails with not_found.
dllm::generate::TextPart text_part(const char* name);

} // namespace dllm::abi
