#include "session.h"

#include "read_file.h"

#include <iostream>
#include <iterator>

namespace dllm::cli {

Owned<dllm_engine> open_engine(const Context& context) {
  return make<dllm_engine>(
      [&](dllm_engine** out, dllm_error* err) { return dllm_engine_new(context.options("engine"), out, err); });
}

Owned<dllm_model> open_model(const Context& context, dllm_engine* engine, const std::string& path) {
  return make<dllm_model>([&](dllm_model** out, dllm_error* err) {
    return dllm_model_load(engine, path.c_str(), context.options("model"), context.task(), out, err);
  });
}

Owned<dllm_tokenizer> open_tokenizer(const std::string& path) {
  return make<dllm_tokenizer>([&](dllm_tokenizer** out, dllm_error* err) {
    return dllm_tokenizer_load(path.c_str(), nullptr, out, err);
  });
}

std::vector<int32_t> encode(const dllm_tokenizer* tokenizer, const std::string& text) {
  return dllm::api::array<int32_t>([&](int32_t* dst, int64_t room, int64_t* count, dllm_error* err) {
    return dllm_tokenizer_encode(tokenizer, text.data(), static_cast<int64_t>(text.size()), dst, room, count, err);
  });
}

std::string decode(const dllm_tokenizer* tokenizer, const std::vector<int32_t>& all) {
  std::vector<int32_t> ids = all;
  const int64_t size = dllm_tokenizer_size(tokenizer);
  std::erase_if(ids, [&](int32_t id) { return id < 0 || id >= size; });
  return text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_tokenizer_decode(tokenizer, ids.data(), static_cast<int64_t>(ids.size()), out, err);
  });
}

int64_t model_number(const dllm_model* model, const char* key) {
  int64_t value = 0;
  call([&](dllm_error* err) { return dllm_model_i64(model, key, &value, err); });
  return value;
}

Canvas canvas_of(const dllm_decoder* decoder, int64_t slot) {
  Canvas canvas;
  canvas.ids = dllm::api::array<int32_t>([&](int32_t* dst, int64_t room, int64_t* count, dllm_error* err) {
    return dllm_decoder_ids(decoder, slot, dst, room, count, err);
  });
  canvas.states = dllm::api::array<uint8_t>([&](uint8_t* dst, int64_t room, int64_t* count, dllm_error* err) {
    return dllm_decoder_states(decoder, slot, dst, room, count, err);
  });
  canvas.confidence = dllm::api::array<float>([&](float* dst, int64_t room, int64_t* count, dllm_error* err) {
    return dllm_decoder_confidence(decoder, slot, dst, room, count, err);
  });
  return canvas;
}

double decoder_metric(const dllm_decoder* decoder, int64_t slot, const char* key) {
  double value = 0;
  call([&](dllm_error* err) { return dllm_decoder_metric(decoder, slot, key, &value, err); });
  return value;
}

std::string read_all(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  return read_file(path);
}

}  // namespace dllm::cli
