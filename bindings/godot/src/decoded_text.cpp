#include "decoded_text.h"

namespace dllm_godot {

void DecodedText::load(const std::string& path, int64_t threads, const std::string& options) {
  const dllm::Engine engine({{"threads", threads}});
  dllm::Model model = dllm::Model::load(engine, path);
  dllm::Tokenizer tokenizer = dllm::Tokenizer::load(path);
  dllm::Decoder decoder(model, options.empty() ? "{}" : options);
  model_ = std::move(model);
  tokenizer_ = std::move(tokenizer);
  decoder_ = std::move(decoder);
  is_busy_ = false;
  text_.clear();
}

void DecodedText::say(const std::string& prompt, int64_t seed) {
  need_model();
  const std::vector<int32_t> ids = tokenizer_.encode(prompt);
  decoder_.start(ids, seed);
  given_ = ids.size();
  is_busy_ = true;
  text_.clear();
}

bool DecodedText::step_for(double budget_ms) {
  need_model();
  if (!is_busy_) return false;
  bool has_changed = false;
  is_busy_ = decoder_.step_for(std::chrono::duration<double, std::milli>(budget_ms),
                               [&](const dllm::Event& event) {
                                 has_changed |= event.kind() == DLLM_EVENT_DECODE_STEP;
                               }) > 0;
  if (!has_changed) return is_busy_;
  const std::vector<int32_t> ids = decoder_.ids();
  const std::vector<uint8_t> states = decoder_.states();
  std::vector<int32_t> decided;
  for (size_t i = given_; i < ids.size(); ++i)
    if (states[i] != DLLM_MASKED) decided.push_back(ids[i]);
  text_ = tokenizer_.decode(decided);
  return is_busy_;
}

void DecodedText::need_model() const {
  if (!decoder_)
    throw dllm::Error(DLLM_FAILED_PRECONDITION, "no model is loaded", "call load() first");
}

} // namespace dllm_godot
