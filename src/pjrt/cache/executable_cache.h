#pragma once
// An ExecutableCache keeps compiled programs on disk. The key of a program is a hash of everything
// that decides how the program is compiled.

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::pjrt {

// Everything that decides how a program is compiled. Empty fields are part of the key too.
struct CompileIdentity {
  std::string program;              // StableHLO text
  std::string options;              // serialised CompileOptionsProto
  std::string plugin;               // API version and attributes (versions of XLA, StableHLO)
  std::string platform;             // name and PJRT_Client_PlatformVersion
  std::string library;              // library_identity(path of the plugin)
  std::vector<std::string> devices; // kinds and attributes, in the order of the ranks
  std::string environment;          // compiler_environment() when the plugin was loaded
  std::string host;                 // host_identity(), as programs for a CPU use its instructions
};

// Returns 64 hexadecimal digits: SHA-256 over all fields with their lengths.
std::string cache_key(const CompileIdentity& identity);

// Returns the build id and size of an ELF file; for a file without a build id its size and time of
// change. Fails with not_found.
std::string library_identity(const std::string& path);
// Returns XLA_FLAGS and LIBTPU_INIT_ARGS, which plugins read once, while they are loaded.
std::string compiler_environment();
// Returns the model and instruction sets of this machine's CPU.
std::string host_identity();

// A file of the cache is little-endian: magic "dllmexe\n", u32 version, u32 length of the key, u64
// length of the program, SHA-256 over key and program (32 bytes), key, program.

// Returns the bytes of the file before the program.
std::string cache_file_head(std::string_view key, std::string_view program);
// Returns the program of a cache file as a view of `file`. Returns nothing if the file is cut,
// damaged, of another kind, or has another key or version.
std::optional<std::string_view> cached_program(std::string_view file, std::string_view key);

// A folder of compiled programs, one file per key, with which a second start compiles nothing.
// Several processes and threads may use the folder at once. A failure of the cache never fails a
// compile: a file that cannot be read counts as absent, and the first failed write is logged.
class ExecutableCache {
public:
  static constexpr int64_t kDefaultLimit = int64_t{4} << 30;

  // folder: created by the first write. "auto" means default_folder(), "off" disables the cache.
  // limit: most bytes of all files, 0 for no limit. Files that were used longest ago are removed
  // first.
  explicit ExecutableCache(std::string folder, int64_t limit = kDefaultLimit);

  bool enabled() const { return !folder_.empty(); }
  const std::string& folder() const { return folder_; } // "" if disabled
  int64_t limit() const { return limit_; }

  // Returns exactly the bytes that were stored under `key` (of cache_key()), or nothing.
  std::optional<std::string> load(const std::string& key);
  // Stores `bytes`, then removes files beyond the limit. A concurrent load() returns the old bytes
  // or the new ones.
  void store(const std::string& key, std::string_view bytes);

  // Returns $XDG_CACHE_HOME/dllm/pjrt, else $HOME/.cache/dllm/pjrt, else "", which disables the
  // cache.
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
