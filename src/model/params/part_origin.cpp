#include "model/params/part_origin.h"

#include "base/error.h"
#include "base/files.h"
#include "base/sha256.h"
#include "base/store/address.h"
#include "ckpt/checkpoint/checkpoint_folder.h"
#include "text/data/dataset.h" // hash_bytes

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

namespace dllm::model {
namespace {

// Digests with this prefix are made as described in the header. Older runs have digests without it.
constexpr std::string_view kMade = "2-";
constexpr int64_t kWhole = int64_t{64} << 20; // a place of at most so many bytes is read whole
constexpr int64_t kPiece = int64_t{1} << 20;

// The bytes of a file that are read: the first ones, and samples of the rest at equal distances.
struct Sampling {
  int64_t head = 0, sample = 0, samples = 0;
  bool has_end = false; // the last sample ends with the file
};
constexpr Sampling kSampling{64 << 10, 4 << 10, 256, true};
constexpr Sampling kOldSampling{64 << 10, 1 << 10, 16, false};

bool counts(std::string_view name) {
  constexpr std::string_view kEndings[] = {".safetensors", ".bin", ".pt", ".pth", ".gguf"};
  return name == "config.json" || name == "adapter_config.json" ||
         std::ranges::any_of(kEndings,
                             [&](std::string_view ending) { return name.ends_with(ending); });
}

void add_name(Sha256& hash, const InputFile& file) {
  hash.add(fmt::format("{} {}\n", file_name(file.path()), file.size()));
}

void add_samples(Sha256& hash, const InputFile& file, const Sampling& how) {
  add_name(hash, file);
  const auto add = [&](int64_t at, int64_t size) {
    const Bytes bytes = file.read(at, size);
    hash.add(bytes.data(), bytes.size());
  };
  add(0, std::min(how.head, file.size()));
  const int64_t rest =
      file.size() - how.head - how.sample; // start of the last sample, after the head
  if (how.has_end && rest <= 0 && file.size() > how.head)
    return add(how.head, file.size() - how.head);
  const int64_t parts = how.has_end ? how.samples - 1 : how.samples;
  for (int64_t i = 0; i < how.samples && rest > 0; ++i)
    add(how.head + rest * i / parts, how.sample);
}

// A fast hash of each piece, because SHA-256 would take a second for 250 MB.
void add_whole(Sha256& hash, const InputFile& file) {
  add_name(hash, file);
  for (int64_t at = 0; at < file.size(); at += kPiece) {
    const Bytes bytes = file.read(at, std::min(kPiece, file.size() - at));
    hash.add(fmt::format("{:016x}", text::hash_bytes(bytes.data(), bytes.size())));
  }
}

std::vector<std::string> files_of(const std::string& path) {
  if (!is_directory(path)) return {path};
  std::vector<std::string> files;
  for (const std::string& name : list_directory(path)) {
    const std::string file = join_path(path, name);
    if (counts(name) && !is_directory(file)) files.push_back(file);
  }
  return files;
}

// Returns the digest that older programs made.
std::string old_digest_of(const std::string& path) {
  Sha256 hash;
  for (const std::string& file : files_of(path)) add_samples(hash, InputFile(file), kOldSampling);
  return hex(hash.finish());
}

} // namespace

std::string digest_of(const std::string& path) {
  const std::vector<std::string> files = files_of(path);
  int64_t size = 0;
  for (const std::string& file : files) size += InputFile(file).size();
  Sha256 hash;
  for (const std::string& file : files) {
    if (size <= kWhole)
      add_whole(hash, InputFile(file));
    else
      add_samples(hash, InputFile(file), kSampling);
  }
  return std::string(kMade) + hex(hash.finish());
}

bool PartOrigin::has_digest(const std::string& other) const {
  if (other.starts_with(kMade)) return digest == other;
  return old_digest_of(address) == other;
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
