#include "model/weights.h"

#include "base/error.h"

namespace dllm::model {

const WeightFormat* WeightSource::format(const std::string& logical) const {
  return find_weight_format(dtype_name(dtype(logical)));
}

Tensor WeightSource::read_blocks(const std::string& logical, const Shape& shape, std::byte* to,
                                 const Task* task) const {
  const WeightFormat& own = *format(logical);
  const Tensor elements = read_to(logical, to, task); // of a type of its own: f16
  Tensor view(DType::u8, stored_shape(own, shape),
              Bytes(to, static_cast<size_t>(elements.byte_size()), nullptr));
  view.set_format(&own);
  return view;
}

bool engine_reads(const graph::Engine& engine, const WeightFormat& format) {
  return !format.is_blocks() || engine.kind() == "cpu";
}

void expect_engine_reads(const graph::Engine& engine, const WeightFormat& format) {
  if (engine_reads(engine, format)) return;
  fail_with_hint("load the model with dtype=bf16 (or f32, int8)", Code::unimplemented,
                 "the {} engine does not multiply weights of format {}", engine.kind(),
                 format.name);
}

} // namespace dllm::model
