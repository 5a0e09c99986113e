#include "fingerprint.h"

#include <nlohmann/json.hpp>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace dllm::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFiles = 1000;
constexpr std::streamoff kBlock = 1 << 16;
constexpr int64_t kWholeBytes = int64_t{256} << 20; // of all files together
constexpr std::streamoff kBlocks = 256;             // of each file beyond these

unsigned long add_bytes(unsigned long sum, const std::string& bytes) {
  return crc32(sum, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
}

std::string bytes_at(std::ifstream& file, std::streamoff from) {
  std::string bytes(static_cast<size_t>(kBlock), '\0');
  file.clear();
  file.seekg(from);
  file.read(bytes.data(), kBlock);
  bytes.resize(static_cast<size_t>(file.gcount()));
  return bytes;
}

// Adds all blocks of a file, or kBlocks of them from its beginning to its end.
unsigned long add_file(unsigned long sum, std::ifstream& file, std::streamoff size, bool whole) {
  const std::streamoff all = (size + kBlock - 1) / kBlock;
  if (whole || all <= kBlocks) {
    for (std::streamoff i = 0; i < all; ++i) sum = add_bytes(sum, bytes_at(file, i * kBlock));
    return sum;
  }
  const std::streamoff last = size - kBlock;
  for (std::streamoff i = 0; i < kBlocks; ++i) // all differ
    sum = add_bytes(sum, bytes_at(file, last * i / (kBlocks - 1)));
  return sum;
}

// Returns true for a link that the readers skip: its file is below `top` under its own name, or it
// leads to a folder or to nothing.
bool is_second_name(const fs::directory_entry& entry, const fs::path& top) {
  std::error_code error;
  if (!entry.is_symlink(error)) return false;
  const fs::path target = fs::canonical(entry.path(), error);
  if (error || fs::is_directory(target, error)) return true;
  return target.native().starts_with(top.native() + "/");
}

// Returns true for the index of a file of fortunes: NAME.dat next to NAME.
bool is_index(const fs::path& path) {
  std::error_code ignored;
  return path.extension() == ".dat" && fs::exists(fs::path(path).replace_extension(), ignored);
}

bool is_skipped(const fs::directory_entry& entry, const fs::path& top) {
  const std::string name = entry.path().filename().string();
  return name[0] == '.' || is_index(entry.path()) || is_second_name(entry, top);
}

// Returns at most kMostFiles files of a path that the readers read; the path itself for a file.
std::vector<std::string> files_of(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return {path};
  const fs::path top = fs::canonical(path, ignored);
  std::vector<std::string> files;
  for (fs::recursive_directory_iterator at(path, ignored), end;
       at != end && files.size() < kMostFiles; at.increment(ignored)) {
    if (is_skipped(*at, top))
      at.disable_recursion_pending();
    else if (at->is_regular_file(ignored))
      files.push_back(at->path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

} // namespace

std::string fingerprint_of(const std::string& data) {
  std::error_code ignored;
  if (!fs::exists(data, ignored)) return "null";
  int64_t count = 0, bytes = 0;
  unsigned long sum = 0;
  for (const std::string& path : files_of(data)) {
    if (!fs::is_regular_file(path, ignored)) continue; // a pipe has no size and no second reader
    const auto size = static_cast<std::streamoff>(fs::file_size(path, ignored));
    std::ifstream file(path, std::ios::binary);
    if (ignored || !file) continue;
    ++count;
    bytes += size;
    if (path != data) sum = add_bytes(sum, fs::path(path).lexically_relative(data).string());
    sum = add_file(sum, file, size, bytes <= kWholeBytes);
  }
  return nlohmann::json{{"files", count}, {"bytes", bytes}, {"checksum", sum}}.dump();
}

nlohmann::ordered_json checksum_of(const std::string& path) {
  const auto facts = nlohmann::ordered_json::parse(fingerprint_of(path));
  return facts.is_object() ? facts.at("checksum") : nlohmann::ordered_json();
}

} // namespace dllm::cli
