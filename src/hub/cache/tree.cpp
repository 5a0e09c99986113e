#include "hub/cache/tree.h"

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "hub/cache/blob_lock.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::hub {
namespace {

constexpr int kVersion = 1;
constexpr int64_t kMostBytes = int64_t{64} << 20;

Json to_json(const Listing& listing) {
  Json files = Json::object();
  for (const RemoteFile& file : listing.files) {
    Json entry = {{"size", file.size}, {"blob_id", file.blob_id}};
    if (!file.sha256.empty()) {
      entry["lfs_sha256"] = file.sha256;
      entry["lfs_size"] = file.size;
    }
    files[file.path] = std::move(entry);
  }
  return {{"format_version", kVersion}, {"files", std::move(files)}};
}

// Returns the file of an entry; an exception of Json says that it is not one.
RemoteFile file_of(const std::string& path, const Json& entry) {
  RemoteFile made{path, entry.at("size").get<int64_t>(), entry.value("lfs_sha256", ""),
                  entry.at("blob_id").get<std::string>()};
  if (!made.sha256.empty()) made.size = entry.value("lfs_size", made.size);
  const bool fits =
      is_safe_path(path) && made.size >= 0 && (made.sha256.empty() || is_sha256(made.sha256));
  if (!fits) fail(Code::data_loss, "its file \"{}\" has no size or no hash", path.substr(0, 200));
  return made;
}

Listing parse_tree(const std::string& text, const std::string& commit) {
  const Json tree = parse_json(text, "it");
  if (!tree.is_object() || tree.value("format_version", 0) != kVersion)
    fail(Code::data_loss, "its version is not {}", kVersion);
  if (!tree.contains("files") || !tree["files"].is_object())
    fail(Code::data_loss, "it has no files");
  Listing made;
  made.commit = commit;
  for (const auto& [path, entry] : tree["files"].items())
    made.files.push_back(file_of(path, entry));
  std::sort(made.files.begin(), made.files.end(),
            [](const RemoteFile& a, const RemoteFile& b) { return a.path < b.path; });
  return made;
}

} // namespace

std::optional<Listing> kept_tree(const RepoCache& cache, const std::string& commit) {
  const std::string path = cache.tree(commit);
  if (!file_exists(path)) return std::nullopt;
  std::string reason;
  try {
    return parse_tree(read_text(path, kMostBytes), commit);
  } catch (const Error& error) {
    reason = error.text();
  } catch (const Json::exception& error) {
    reason = error.what();
  }
  log(LogLevel::warn, "the list {} is not used: {}", path, reason);
  return std::nullopt;
}

bool keep_tree(const RepoCache& cache, const Listing& listing, const Task* task) {
  const bool has_facts =
      std::all_of(listing.files.begin(), listing.files.end(),
                  [](const RemoteFile& file) { return file.size >= 0 && !file.blob_id.empty(); });
  if (!has_facts) return false;
  if (kept_tree(cache, listing.commit)) return true;
  const BlobLock lock(cache.lock("trees"), "the list of commit " + listing.commit, task);
  const std::string path = cache.tree(listing.commit);
  make_directories(cache.snapshot(listing.commit)); // a list alone would look like a damaged cache
  make_directories(parent_path(path));
  write_file_atomic(path, to_json(listing).dump(1));
  return true;
}

} // namespace dllm::hub
