// The key of a compiled program, and the fields that the key hashes.

#include "base/error.h"
#include "base/files.h"
#include "base/sha256.h"
#include "pjrt/cache/executable_cache.h"

#include <elf.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>

namespace dllm::pjrt {

namespace {

void add(Sha256& hash, std::string_view part) {
  const uint64_t size = part.size();
  hash.add(&size, sizeof(size)); // the length separates a part from the next one
  hash.add(part);
}

// Returns the T at `offset`, or nothing past the end.
template <class T> std::optional<T> read_at(const Bytes& file, uint64_t offset) {
  if (offset > file.size() || file.size() - offset < sizeof(T)) return {};
  T value;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

// Returns the note named GNU of type NT_GNU_BUILD_ID within [begin, begin + size) as hexadecimal
// digits, or "".
std::string build_id_in(const Bytes& file, uint64_t begin, uint64_t size) {
  const auto padded = [](uint64_t bytes) { return (bytes + 3) / 4 * 4; };
  for (uint64_t at = begin; at < begin + size;) {
    const auto note = read_at<Elf64_Nhdr>(file, at);
    if (!note) return "";
    const uint64_t name = at + sizeof(Elf64_Nhdr);
    const uint64_t content = name + padded(note->n_namesz);
    at = content + padded(note->n_descsz);
    if (at > file.size() || note->n_type != NT_GNU_BUILD_ID || note->n_namesz != 4) continue;
    if (std::memcmp(file.data() + name, "GNU", 4) != 0) continue;
    std::string id;
    for (uint64_t i = 0; i < note->n_descsz; ++i)
      id += fmt::format("{:02x}", static_cast<uint8_t>(file.data()[content + i]));
    return id;
  }
  return "";
}

// Returns the build id, or "" for a file without one, a 32-bit file or a file that is not ELF.
std::string build_id(const Bytes& file) {
  const auto header = read_at<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return "";
  if (header->e_ident[EI_CLASS] != ELFCLASS64) return "";
  for (uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto part = read_at<Elf64_Phdr>(file, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!part) return "";
    if (part->p_type != PT_NOTE || part->p_offset > file.size()) continue;
    const uint64_t size = std::min<uint64_t>(part->p_filesz, file.size() - part->p_offset);
    const std::string id = build_id_in(file, part->p_offset, size);
    if (!id.empty()) return id;
  }
  return "";
}

} // namespace

std::string cache_key(const CompileIdentity& identity) {
  Sha256 hash;
  add(hash, "dllm pjrt 1"); // version of the keys
  for (const std::string* part :
       {&identity.program, &identity.options, &identity.plugin, &identity.platform,
        &identity.library, &identity.environment, &identity.host}) {
    add(hash, *part);
  }
  for (const std::string& kind : identity.devices) add(hash, kind);
  return hex(hash.finish());
}

std::string library_identity(const std::string& path) {
  const int64_t size = file_size(path);
  const std::string id = build_id(map_file(path));
  if (!id.empty()) return fmt::format("build id {}, {} bytes", id, size);
  struct stat info {};
  ::stat(path.c_str(), &info);
  return fmt::format("{} bytes, changed at {}.{:09}", size, info.st_mtim.tv_sec,
                     info.st_mtim.tv_nsec);
}

std::string compiler_environment() {
  std::string text;
  for (const char* name : {"XLA_FLAGS", "LIBTPU_INIT_ARGS"}) {
    const char* value = std::getenv(name);
    text += fmt::format("{}={}\n", name, value != nullptr ? value : "");
  }
  return text;
}

std::string host_identity() {
  std::ifstream info("/proc/cpuinfo");
  std::string text, line;
  while (std::getline(info, line) && !(line.empty() && !text.empty())) { // the first core's lines
    for (const char* wanted : {"model name", "flags", "CPU part", "Features", "isa"}) {
      if (line.starts_with(wanted)) text += line + "\n";
    }
  }
  return text;
}

} // namespace dllm::pjrt
