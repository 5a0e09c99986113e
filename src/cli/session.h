#pragma once
// What several commands need: an engine, a model from a folder, a file or a run, its tokenizer.

#include "command.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::cli {

// No option is accepted and ignored: one that a command never uses is refused, one that has no effect together with the
// others is named on standard error.
void refuse_typed(const Context& context, const std::string& kind, const std::string& key,
                  const std::string& reason);
void note_typed(const Context& context, const std::string& kind, const std::string& key,
                const std::string& reason);

// Refuses options of one kind of engine that the chosen kind ignores.
void check_engine(const Context& context);
Owned<dllm_engine> open_engine(const Context& context);
Owned<dllm_model> open_model(const Context& context, dllm_engine* engine, const std::string& path);
Owned<dllm_tokenizer> open_tokenizer(const std::string& path);

std::vector<int32_t> encode(const dllm_tokenizer* tokenizer, const std::string& text);
// Ids that the model has and the tokenizer has not (rows that fill up a vocabulary, an added mask token) have no text.
std::string decode(const dllm_tokenizer* tokenizer, const std::vector<int32_t>& ids);
int64_t model_number(const dllm_model* model, const char* key); // "vocab" "mask_id"

struct Canvas {
  std::vector<int32_t> ids;
  std::vector<uint8_t> states; // DLLM_MASKED .. DLLM_FIXED
  std::vector<float> confidence;
};
Canvas canvas_of(const dllm_decoder* decoder, int64_t slot);
double decoder_metric(const dllm_decoder* decoder, int64_t slot, const char* key);

std::string read_all(const std::string& path); // "-": standard input

} // namespace dllm::cli
