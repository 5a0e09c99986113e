// Any bytes as a file of torch.save, and as the pickle inside of one.

#include "base/error.h"
#include "base/files.h"
#include "ckpt/torch/torch_file.h"

namespace {

using namespace dllm;

void as_file(const uint8_t* data, size_t size) {
  const ckpt::TorchFile file(Bytes(data, size, nullptr), "fuzz");
  for (const auto& [name, info] : file.tensors()) {
    if (!info.dtype) continue;
    const Tensor tensor = file.tensor_copy(name);
    volatile uint8_t last = 0;
    for (int64_t i = 0; i < tensor.byte_size(); ++i) last = static_cast<uint8_t>(tensor.bytes()[i]);
    (void)last;
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    as_file(data, size);
  } catch (const Error&) {
  }
  try {
    ckpt::parse_tensor_pickle({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const Error&) {
  }
  return 0;
}
