// Any bytes as a GGUF file: open it, read every key in every way, dequantize every tensor, read the
// vocabulary.

#include "base/error.h"
#include "ckpt/gguf/gguf.h"

namespace {

using namespace dllm;

template <class F> void attempt(F&& call) {
  try {
    call();
  } catch (const Error&) {
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  attempt([&] {
    const ckpt::GgufFile file(Bytes(data, size, nullptr), "fuzz");
    for (const auto& [key, value] : file.metadata()) {
      const std::string& name = key;
      attempt([&] { file.integer(name); });
      attempt([&] { file.number(name); });
      attempt([&] { file.boolean(name); });
      attempt([&] { file.text(name); });
      attempt([&] { file.integers(name); });
      attempt([&] { file.numbers(name); });
      attempt([&] { file.texts(name); });
    }
    for (const auto& [tensor, info] : file.tensors()) {
      const std::string& name = tensor;
      attempt([&] { file.tensor(name).to(DType::f32); });
      attempt([&] {
        std::vector<float> row(static_cast<size_t>(file.tensor_info(name).shape.dim(-1)));
        file.dequantize(name, row, 0, 1);
      });
    }
    attempt([&] { ckpt::read_gguf_vocabulary(file); });
  });
  return 0;
}
