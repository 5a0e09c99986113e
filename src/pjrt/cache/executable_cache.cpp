// Files of the cache: reading, writing, and removing the ones beyond the limit.

#include "pjrt/cache/executable_cache.h"

#include "base/environment.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/sha256.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <ctime>
#include <vector>

namespace dllm::pjrt {

namespace {

constexpr std::string_view kEnding = ".program";
constexpr std::string_view kPartial = ".partial";
// After one hour a partial file counts as abandoned by its writer.
constexpr int64_t kAbandoned = int64_t{3600} * 1'000'000'000;

struct Entry {
  std::string path;
  int64_t size;
  int64_t used; // nanoseconds: when the program was last written or marked by mark_used()
};

int64_t nanoseconds(const timespec& time) {
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return nanoseconds(time);
}

// Returns a name that no other writer uses, also in other processes and on other machines that
// share the folder.
std::string partial_name(const std::string& key) {
  static std::atomic<uint64_t> count{0};
  return fmt::format("{}.{}-{}-{}{}", key, ::getpid(), count.fetch_add(1), unique_word(), kPartial);
}

// Returns true for a name such as cache_key() returns, which cannot be a path to another folder.
bool is_key(const std::string& key) {
  const auto plain = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'); };
  return !key.empty() && key.size() <= 128 && std::all_of(key.begin(), key.end(), plain);
}

std::vector<Entry> entries_of(const std::string& folder, std::string_view ending) {
  std::vector<Entry> entries;
  for (const std::string& name : list_directory(folder)) {
    if (!name.ends_with(ending)) continue;
    struct stat info {};
    const std::string path = join_path(folder, name);
    // Another process may have removed the file. The cache writes only regular files.
    if (::lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    const int64_t used = std::max(nanoseconds(info.st_mtim), nanoseconds(info.st_atim));
    entries.push_back({path, info.st_size, used});
  }
  return entries;
}

// Sets the time of the last access, which "noatime" mounts do not set. Keeps the time of the last
// write, because a process that is reading the file would take another time for a changed file.
// Does nothing without permission to write.
void mark_used(const std::string& path) {
  const timespec times[2] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
  ::utimensat(AT_FDCWD, path.c_str(), times, 0);
}

} // namespace

ExecutableCache::ExecutableCache(std::string folder, int64_t limit) : limit_(limit) {
  if (folder == "auto") folder = default_folder();
  if (folder != "off") folder_ = std::move(folder);
}

std::string ExecutableCache::default_folder() {
  const std::string cache = variable("XDG_CACHE_HOME");
  if (cache.starts_with('/'))
    return join_path(cache, "dllm/pjrt"); // the XDG specification ignores a relative path
  const std::string home = variable("HOME");
  return home.starts_with('/') ? join_path(home, ".cache/dllm/pjrt") : "";
}

std::string ExecutableCache::path_of(const std::string& key) const {
  return join_path(folder_, key + std::string(kEnding));
}

void ExecutableCache::complain(const std::string& text) {
  if (complained_.exchange(true)) return;
  log(LogLevel::warn, "compiled programs are not kept in {}: {}", folder_, text);
}

std::optional<std::string> ExecutableCache::load(const std::string& key) {
  if (!enabled() || !is_key(key)) return {};
  const std::string path = path_of(key);
  try {
    if (!file_exists(path)) return {};
    std::string file = read_text(path, int64_t{1} << 34);
    const std::optional<std::string_view> program = cached_program(file, key);
    if (!program) {
      log(LogLevel::info, "{} is not a compiled program of this key and is ignored", path);
      return {};
    }
    mark_used(path);
    file.erase(0, static_cast<size_t>(program->data() - file.data()));
    return file;
  } catch (const Error&) { // the file was removed meanwhile, or cannot be read
    return {};
  } catch (const std::bad_alloc&) {
    return {};
  }
}

void ExecutableCache::store(const std::string& key, std::string_view bytes) {
  if (!enabled() || !is_key(key)) return;
  try {
    write(key, bytes);
  } catch (const std::exception& error) {
    complain(error.what());
  }
}

void ExecutableCache::write(const std::string& key, std::string_view bytes) {
  const std::string head = cache_file_head(key, bytes);
  const auto size = static_cast<int64_t>(head.size() + bytes.size());
  if (limit_ > 0 && size > limit_) return; // the file would displace all others
  make_directories(folder_);
  const std::string partial = join_path(folder_, partial_name(key));
  try {
    FileWriter writer(partial);
    writer.write(head.data(), head.size());
    writer.write(bytes.data(), bytes.size());
    writer.close();
    rename_path(partial, path_of(key));
  } catch (...) {
    ::unlink(partial.c_str());
    throw;
  }
  trim(path_of(key));
}

// Several processes may trim at once; a file that is removed already is not an error.
void ExecutableCache::trim(const std::string& newest) const {
  const int64_t time = now();
  for (const Entry& left : entries_of(folder_, kPartial)) {
    if (time - left.used > kAbandoned) ::unlink(left.path.c_str());
  }
  if (limit_ == 0) return;
  std::vector<Entry> entries = entries_of(folder_, kEnding);
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  int64_t total = 0;
  for (const Entry& entry : entries) total += entry.size;
  for (const Entry& entry : entries) {
    if (total <= limit_) return;
    if (entry.path == newest) continue;
    ::unlink(entry.path.c_str());
    total -= entry.size;
  }
}

namespace {

constexpr std::string_view kMagic = "dllmexe\n";
constexpr uint64_t kVersion = 1;
constexpr size_t kHashAt = kMagic.size() + 4 + 4 + 8;
constexpr size_t kHeaderBytes = kHashAt + 32;

void put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

uint64_t number(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    value |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return value;
}

// Hashes the key's length, the key and the program. The length separates the key from the program.
Sha256::Digest checksum(std::string_view key, std::string_view program) {
  std::string length;
  put(length, key.size(), 8);
  Sha256 hash;
  hash.add(length);
  hash.add(key);
  hash.add(program);
  return hash.finish();
}

} // namespace

std::string cache_file_head(std::string_view key, std::string_view program) {
  std::string head(kMagic);
  put(head, kVersion, 4);
  put(head, key.size(), 4);
  put(head, program.size(), 8);
  for (const uint8_t byte : checksum(key, program)) head += static_cast<char>(byte);
  return head.append(key);
}

std::optional<std::string_view> cached_program(std::string_view file, std::string_view key) {
  if (file.size() < kHeaderBytes || file.substr(0, kMagic.size()) != kMagic) return {};
  if (number(file.substr(kMagic.size(), 4)) != kVersion) return {};
  if (number(file.substr(kMagic.size() + 4, 4)) != key.size()) return {};
  if (file.size() - kHeaderBytes < key.size() || file.substr(kHeaderBytes, key.size()) != key)
    return {};
  const std::string_view program = file.substr(kHeaderBytes + key.size());
  if (number(file.substr(kMagic.size() + 8, 8)) != program.size()) return {};
  const Sha256::Digest found = checksum(key, program);
  if (std::memcmp(file.data() + kHashAt, found.data(), found.size()) != 0) return {};
  return program;
}

} // namespace dllm::pjrt
