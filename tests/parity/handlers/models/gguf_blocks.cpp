// families/gguf_blocks: blocks of random bytes of every GGUF type, and what gguf-py makes of them.
// Equal to the bit: the values are products and sums of few small numbers in a given order.

#include "ckpt/gguf/gguf.h"
#include "handlers.h"
#include "runner.h"

#include <nlohmann/json.hpp>

namespace dllm::parity {
namespace {

void check_block(Case& c, const Json& entry, uint32_t type) {
  const ckpt::GgmlTypeInfo* info = ckpt::ggml_type_info(type);
  c.check(info != nullptr && info->readable, "the type is read");
  if (info == nullptr) return;
  c.equal(info->block, entry.at("block_elements").get<int64_t>(), "weights of a block");
  c.equal(info->bytes, entry.at("block_bytes").get<int64_t>(), "bytes of a block");
}

} // namespace

void run_gguf_blocks(Topic& topic) {
  for (const Json& entry : topic.list("cases")) {
    topic.run(entry, [&](Case& c) {
      const auto type = entry.at("ggml_type").get<uint32_t>();
      check_block(c, entry, type);
      const Tensor& wanted = c.array("values");
      Tensor values(DType::f32, wanted.shape());
      ckpt::dequantize_blocks(type, c.array("bytes").bytes(), values.mutable_as<float>().data(),
                              wanted.count());
      c.equal(values, wanted, "values");
    });
  }
}

} // namespace dllm::parity
