#include "ckpt/checkpoint/state_files.h"

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"

#include <nlohmann/json.hpp>

#include <fmt/core.h>

namespace dllm::ckpt {
namespace {

constexpr int64_t kMostWriters = 1 << 16;

int64_t writers_of(const std::string& checkpoint) {
  const std::string layout = "state/layout.json";
  const Json record = parse_json(read_text(join_path(checkpoint, layout)), layout);
  try {
    const int64_t ranks = record.is_object() ? record.value("ranks", int64_t{0}) : 0;
    if (ranks >= 1 && ranks <= kMostWriters) return ranks;
    fail(Code::data_loss, "{}: \"ranks\" is {}, expected 1 or more", layout, ranks);
  } catch (const nlohmann::json::exception& error) {
    fail(Code::data_loss, "{}: {}", layout, error.what());
  }
}

} // namespace

std::string state_file(int64_t writer) {
  return fmt::format("state/rank_{:03}.safetensors", writer);
}

StateFiles::StateFiles(const std::string& checkpoint) {
  const int64_t writers = writers_of(checkpoint);
  for (int64_t writer = 0; writer < writers; ++writer) {
    const std::string path = join_path(checkpoint, state_file(writer));
    files_.push_back(std::make_unique<SafetensorsFile>(open_content(path), file_name(path)));
    for (const auto& [name, info] : files_.back()->tensors()) where_[name] = files_.back().get();
  }
}

const SafetensorsFile* StateFiles::find(const std::string& name) const {
  const auto found = where_.find(name);
  return found == where_.end() ? nullptr : found->second;
}

} // namespace dllm::ckpt
