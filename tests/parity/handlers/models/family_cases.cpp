#include "handlers/models/family_cases.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace dllm::parity {

Ids family_ids(const Tensor& array) {
  const auto all = array.as<int32_t>();
  return {all.begin(), all.end()};
}

Ids case_ids(const Json& value) {
  if (value.is_null()) return {};
  return value.is_array() ? value.get<Ids>() : Ids{value.get<int32_t>()};
}

std::string list_text(const Ids& ids) {
  return fmt::format("{}", fmt::join(ids, ","));
}

void compare_forward(Case& c, model::Model& model, const Json& entry, const Json& settings,
                     const std::string& array) {
  Batch batch;
  batch.set("ids", c.array("input_ids"));
  Options options(model::forward_schema());
  options.set_json(settings);
  options.set_i64("shift", 0);
  c.close(c.topic().tolerance(entry), model::forward(model, batch, options).at("logits"),
          c.array(array), array);
}

Tensor span_logits(model::Model& model, const Ids& ids, const decode::AttentionSpan& span) {
  const auto length = static_cast<int64_t>(ids.size());
  Tensor mask(DType::u8, {1, length, length});
  for (int64_t q = 0; q < length; ++q) {
    for (int64_t k = 0; k < length; ++k)
      mask.mutable_as<uint8_t>()[static_cast<size_t>(q * length + k)] = k < span.limit(q) ? 1 : 0;
  }
  Batch batch;
  batch.set("ids", Tensor::from(Shape{1, length}, ids));
  batch.set("mask", mask);
  Options options(model::forward_schema());
  options.set_json(Json{{"attention", "bidirectional"}, {"shift", 0}});
  return model::forward(model, batch, options).at("logits").row(0);
}

void compare_canvas(Case& c, const decode::Decoder& decoder, int64_t begin, const Ids& want,
                    int64_t call) {
  const Ids& ids = decoder.request(0).ids;
  const auto first = ids.begin() + begin;
  c.equal(text_of({first, first + static_cast<int64_t>(want.size())}), text_of(want),
          fmt::format("canvas of call {}", call));
}

} // namespace dllm::parity
