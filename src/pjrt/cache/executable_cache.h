#pragma once
// Compiled programs on disk, and the keys they are found by.

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::pjrt {

// Names of what decides a compiled program: the same name, the same program. For keys of the
// executable cache.

// Everything that decides what a compiler makes. A field that is left empty is part of the key as well.
struct CompileIdentity {
  std::string program;              // StableHLO text
  std::string options;              // serialised CompileOptionsProto
  std::string plugin;               // API version, xla_version, stablehlo versions, as text
  std::string platform;             // name and PJRT_Client_PlatformVersion
  std::string library;              // library_identity(path of the plugin)
  std::vector<std::string> devices; // kinds, in order of the device assignment
  std::string environment;          // compiler_environment() when the plugin was loaded
  std::string host;                 // host_identity(): programs for a CPU use its instructions
};

// 64 hexadecimal digits (SHA-256 over all fields with their lengths).
std::string cache_key(const CompileIdentity& identity);

// The build id of an ELF file and its size; without a build id its size and time of change. Fails
// with not_found.
std::string library_identity(const std::string& path);
// XLA_FLAGS and LIBTPU_INIT_ARGS; plugins read them once, when they are loaded.
std::string compiler_environment();
// Model and instruction sets of this machine's CPU.
std::string host_identity();

// A compiled program as a file of the cache. Little-endian: magic "dllmexe\n", u32 version, u32
// length of the key, u64 length of the program, SHA-256 over key and program (32 bytes); then the
// key, then the program, then nothing.

// All of the file before the program.
std::string cache_file_head(std::string_view key, std::string_view program);
// The program inside `file`; nothing for a file of another key or version, a cut one, one with a
// changed bit, or a foreign one. A view of `file`.
std::optional<std::string_view> cached_program(std::string_view file, std::string_view key);

// Compiled programs on disk, so that a second start compiles nothing. One file per key; many
// processes and threads may use one folder. Nothing here fails a compile: what cannot be read is
// not there, what cannot be written is logged once.

class ExecutableCache {
public:
  static constexpr int64_t kDefaultLimit = int64_t{4} << 30;

  // folder: made when first needed; "auto": default_folder(); "off": no cache. limit: most bytes of
  // all programs together, 0: no limit. The programs used longest ago go first.
  explicit ExecutableCache(std::string folder, int64_t limit = kDefaultLimit);

  bool enabled() const { return !folder_.empty(); }
  const std::string& folder() const { return folder_; } // "" when off
  int64_t limit() const { return limit_; }

  // key: from cache_key(). The bytes are what store() was given for it, to the bit, or
  // nothing.
  std::optional<std::string> load(const std::string& key);
  // Readers see the old bytes or these. Keeps the folder within the limit.
  void store(const std::string& key, std::string_view bytes);

  // $XDG_CACHE_HOME/dllm/pjrt, else $HOME/.cache/dllm/pjrt, else "" (then auto is off).
  static std::string default_folder();

private:
  std::string path_of(const std::string& key) const;
  void write(const std::string& key, std::string_view bytes);
  void trim(const std::string& newest) const;
  void complain(const std::string& text);

  std::string folder_;
  int64_t limit_;
  std::atomic<bool> complained_{false};
};

} // namespace dllm::pjrt
