#include "model/params/part_origin.h"

#include "base/error.h"
#include "base/files.h"
#include "base/sha256.h"
#include "base/store/address.h"
#include "ckpt/checkpoint/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

namespace dllm::model {
namespace {

constexpr int64_t kHead = 64 << 10, kSample = 1 << 10;
constexpr int64_t kSamples = 16;

bool counts(std::string_view name) {
  constexpr std::string_view kEndings[] = {".safetensors", ".bin", ".pt", ".pth", ".gguf"};
  return name == "config.json" || name == "adapter_config.json" ||
         std::ranges::any_of(kEndings,
                             [&](std::string_view ending) { return name.ends_with(ending); });
}

void add_file(Sha256& hash, const std::string& path) {
  const InputFile file(path);
  hash.add(fmt::format("{} {}\n", file_name(path), file.size()));
  const auto add = [&](int64_t at, int64_t size) {
    const Bytes bytes = file.read(at, size);
    hash.add(bytes.data(), bytes.size());
  };
  add(0, std::min(kHead, file.size()));
  const int64_t rest = file.size() - kHead - kSample;
  for (int64_t i = 0; i < kSamples && rest > 0; ++i) add(kHead + rest * i / kSamples, kSample);
}

} // namespace

std::string digest_of(const std::string& path) {
  Sha256 hash;
  if (!is_directory(path)) {
    add_file(hash, path);
    return hex(hash.finish());
  }
  for (const std::string& name : list_directory(path)) {
    const std::string file = join_path(path, name);
    if (counts(name) && !is_directory(file)) add_file(hash, file);
  }
  return hex(hash.finish());
}

std::optional<PartOrigin> origin_at(const std::string& path) {
  if (is_store_path(path)) return std::nullopt;
  std::error_code unknown; // of a path without characters, and where the working folder is gone
  const auto full = std::filesystem::absolute(path, unknown);
  if (unknown) return std::nullopt;
  const std::string address = full.lexically_normal().string();
  if (file_exists(join_path(parent_path(address), ckpt::kCommitName))) return std::nullopt;
  try {
    return PartOrigin{address, digest_of(path), 0, false};
  } catch (const Error&) { // the numbers were read; a file next to them cannot be
    return std::nullopt;
  }
}

} // namespace dllm::model
