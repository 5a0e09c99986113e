// Any bytes as a safetensors file, and as the index of a sharded model.

#include "base/error.h"
#include "base/files.h"
#include "ckpt/safetensors/safetensors.h"

#include <cstring>

namespace {

using namespace dllm;

void touch(const Tensor& tensor) {
  volatile uint8_t last = 0;
  for (int64_t i = 0; i < tensor.byte_size(); ++i) last = static_cast<uint8_t>(tensor.bytes()[i]);
  (void)last;
}

template <class Names, class Get> void read_all(const Names& names, Get get) {
  for (const auto& name : names) {
    try {
      touch(get(name));
    } catch (const Error& e) {
      if (e.code() != Code::unimplemented) throw;
    }
  }
}

void as_file(const uint8_t* data, size_t size) {
  const ckpt::SafetensorsFile file(Bytes(data, size, nullptr), "fuzz");
  std::vector<std::string> names;
  for (const auto& entry : file.tensors()) names.push_back(entry.first);
  read_all(names, [&](const std::string& name) { return file.tensor(name); });
}

void as_index(const uint8_t* data, size_t size) {
  static const std::string header = R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  const uint64_t length = header.size();
  std::string shard(reinterpret_cast<const char*>(&length), sizeof length);
  shard += header + "x";
  MemorySource source;
  source.add("model.safetensors.index.json", data, size, false);
  source.add("a.safetensors", shard.data(), shard.size(), false);
  const ckpt::WeightFiles files(source);
  read_all(files.names(), [&](const std::string& name) { return files.tensor(name); });
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    as_file(data, size);
  } catch (const Error&) {
  }
  try {
    as_index(data, size);
  } catch (const Error&) {
  }
  return 0;
}
