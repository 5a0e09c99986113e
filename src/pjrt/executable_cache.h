#pragma once
// Compiled programs on disk, so that a second start compiles nothing. One file per key; many
// processes and threads may use one folder. Nothing here fails a compile: what cannot be read is
// not there, what cannot be written is logged once.

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dllm::pjrt {

class ExecutableCache {
public:
  static constexpr int64_t kDefaultLimit = int64_t{4} << 30;

  // folder: made when first needed; "auto": default_folder(); "off": no cache. limit: most bytes of
  // all programs together, 0: no limit. The programs used longest ago go first.
  explicit ExecutableCache(std::string folder, int64_t limit = kDefaultLimit);

  bool enabled() const { return !folder_.empty(); }
  const std::string& folder() const { return folder_; } // "" when off
  int64_t limit() const { return limit_; }

  // key: from cache_key() (identity.h). The bytes are what store() was given for it, to the bit, or
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
