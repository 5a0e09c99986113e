#include "hub/cache/inventory.h"

#include "base/error.h"
#include "base/files.h"
#include "base/sha256.h"
#include "hub/cache/cache.h"
#include "hub/cache/snapshot.h"
#include "hub/settings.h"

#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace dllm::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIncomplete = ".incomplete";

std::vector<std::string> names_in(const std::string& folder) {
  return is_directory(folder) ? list_directory(folder) : std::vector<std::string>();
}

// One blob of a repository.
struct Blob {
  std::string name;
  int64_t bytes = 0;
  int64_t used = 0; // seconds since 1970
};

std::vector<Blob> blobs_of(const RepoCache& cache) {
  std::vector<Blob> blobs;
  const std::string folder = join_path(cache.folder(), "blobs");
  for (const std::string& name : names_in(folder)) {
    struct stat info {};
    if (::stat(join_path(folder, name).c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    blobs.push_back({name, info.st_size, std::max(info.st_atim.tv_sec, info.st_mtim.tv_sec)});
  }
  return blobs;
}

std::vector<std::string> commits_of(const RepoCache& cache) {
  std::vector<std::string> names = names_in(join_path(cache.folder(), "snapshots"));
  std::erase_if(names, [](const std::string& name) { return !is_commit(name); });
  return names;
}

// Returns the revisions of each commit, from the files below refs.
std::map<std::string, std::vector<std::string>> revisions_of(const RepoCache& cache) {
  std::map<std::string, std::vector<std::string>> found;
  const fs::path root = join_path(cache.folder(), "refs");
  std::error_code error;
  for (fs::recursive_directory_iterator it(root, error), end; !error && it != end;
       it.increment(error)) {
    if (!it->is_regular_file(error)) continue;
    const std::string revision = it->path().lexically_relative(root).string();
    if (const auto commit = cache.commit_of(revision)) found[*commit].push_back(revision);
  }
  for (auto& [commit, revisions] : found) std::sort(revisions.begin(), revisions.end());
  return found;
}

// Calls f(path, target) for every link of a snapshot.
template <class F> void each_link(const RepoCache& cache, const std::string& commit, const F& f) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(cache.snapshot(commit), error), end; !error && it != end;
       it.increment(error)) {
    std::error_code unread;
    if (it->is_symlink(unread)) f(it->path().string(), fs::read_symlink(it->path(), unread));
  }
}

std::set<std::string> blobs_used_by(const RepoCache& cache, const std::string& commit) {
  std::set<std::string> names;
  each_link(cache, commit, [&](const std::string&, const fs::path& target) {
    names.insert(target.filename().string());
  });
  return names;
}

// Returns the bytes of the files of a snapshot that are not links, on file systems without them.
int64_t own_bytes(const RepoCache& cache, const std::string& commit) {
  int64_t sum = 0;
  for (const RemoteFile& file : snapshot_files(cache, commit)) {
    if (!is_link(cache.file(commit, file.path))) sum += file.size;
  }
  return sum;
}

Json snapshot_row(const RepoCache& cache, const std::string& commit,
                  const std::vector<std::string>& revisions) {
  int64_t bytes = 0;
  const std::vector<RemoteFile> files = snapshot_files(cache, commit);
  for (const RemoteFile& file : files) bytes += file.size;
  return {{"commit", commit},
          {"revisions", revisions},
          {"files", files.size()},
          {"bytes", bytes},
          {"path", cache.snapshot(commit)}};
}

Json repo_row(const RepoCache& cache, const Name& name) {
  auto revisions = revisions_of(cache);
  Json snapshots = Json::array();
  int64_t bytes = 0, incomplete = 0, used = 0;
  for (const std::string& commit : commits_of(cache)) {
    snapshots.push_back(snapshot_row(cache, commit, revisions[commit]));
    bytes += own_bytes(cache, commit);
  }
  for (const Blob& blob : blobs_of(cache)) {
    (blob.name.ends_with(kIncomplete) ? incomplete : bytes) += blob.bytes;
    used = std::max(used, blob.used);
  }
  return {{"name", text_of(name)}, {"kind", name.kind == RepoKind::model ? "model" : "dataset"},
          {"bytes", bytes},        {"incomplete", incomplete},
          {"used", used},          {"path", cache.folder()},
          {"snapshots", snapshots}};
}

// Returns the name of a repository in the cache.
Name need_cached(std::string_view text) {
  const Name name = need_name(text);
  if (!name.file.empty()) {
    fail_with_hint(fmt::format("write {}, or {}@REVISION", name.repo, name.repo),
                   Code::invalid_argument, "{} names a file, and this call takes repositories",
                   text_of(name));
  }
  const RepoCache cache(cache_folder(), name);
  if (is_directory(cache.folder())) return name;
  fail_with_hint("dllm models lists what is in the cache", Code::not_found,
                 "the cache has no {}: there is no folder {}", shown(name), cache.folder());
}

// Returns the SHA-256 of a file, which is read piece by piece.
std::string digest_of(const std::string& path, Task* task, int64_t* done, int64_t total) {
  constexpr int64_t kPiece = int64_t{4} << 20;
  const InputFile file(path);
  Sha256 hash;
  in_pieces(file.size(), kPiece, task, [&](int64_t begin, int64_t end) {
    hash.add(file.read(begin, end - begin).text());
    *done += end - begin;
    if (task != nullptr) task->set_progress(*done, total);
  });
  return hex(hash.finish());
}

int64_t bytes_of(const std::vector<Blob>& blobs) {
  int64_t sum = 0;
  for (const Blob& blob : blobs) sum += blob.bytes;
  return sum;
}

// Removes the blobs in `candidates` that no snapshot uses. Returns their bytes.
int64_t remove_unused(const RepoCache& cache, const std::set<std::string>& candidates) {
  std::set<std::string> used;
  for (const std::string& commit : commits_of(cache)) used.merge(blobs_used_by(cache, commit));
  int64_t freed = 0;
  for (const Blob& blob : blobs_of(cache)) {
    if (!candidates.contains(blob.name) || used.contains(blob.name)) continue;
    remove_all(cache.blob(blob.name));
    freed += blob.bytes;
  }
  return freed;
}

int64_t remove_snapshot(const RepoCache& cache, const std::string& commit) {
  const std::set<std::string> candidates = blobs_used_by(cache, commit);
  const int64_t own = own_bytes(cache, commit);
  const std::map<std::string, std::vector<std::string>> revisions = revisions_of(cache);
  if (const auto found = revisions.find(commit); found != revisions.end()) {
    for (const std::string& revision : found->second)
      remove_all(join_path(join_path(cache.folder(), "refs"), revision));
  }
  remove_all(cache.snapshot(commit));
  remove_all(cache.tree(commit));
  return own + remove_unused(cache, candidates);
}

} // namespace

Json list_cache(const Task* task) {
  const std::string root = cache_folder();
  Json rows = Json::array();
  for (const std::string& folder : names_in(root)) {
    check_task(task);
    if (const auto name = name_of_folder(folder)) rows.push_back(repo_row({root, *name}, *name));
  }
  std::sort(rows.begin(), rows.end(), [](const Json& a, const Json& b) {
    return a["name"].get_ref<const std::string&>() < b["name"].get_ref<const std::string&>();
  });
  return rows;
}

Json verify_cached(std::string_view text, Task* task) {
  const Name name = need_cached(text);
  const RepoCache cache(cache_folder(), name);
  Json faults = Json::array();
  int64_t files = 0, checked = 0, done = 0;
  for (const std::string& commit : commits_of(cache)) {
    each_link(cache, commit, [&](const std::string& path, const fs::path& target) {
      ++files;
      if (!file_exists(path))
        faults.push_back({{"path", path}, {"what", "its blob is missing: " + target.string()}});
    });
  }
  const std::vector<Blob> blobs = blobs_of(cache);
  const int64_t total = bytes_of(blobs);
  for (const Blob& blob : blobs) {
    if (blob.name.ends_with(kIncomplete)) continue;
    const std::string path = cache.blob(blob.name), digest = digest_of(path, task, &done, total);
    if (!is_sha256(blob.name)) continue;
    ++checked;
    if (digest != blob.name)
      faults.push_back({{"path", path}, {"what", "its SHA-256 is " + digest}});
  }
  return {{"name", text_of(name)},
          {"files", files},
          {"checked", checked},
          {"bytes", done},
          {"faults", faults}};
}

Json remove_cached(std::string_view text, const Task* task) {
  check_task(task);
  const Name name = need_cached(text);
  const std::string root = cache_folder();
  const RepoCache cache(root, name);
  const bool is_one_revision = text.find('@') != std::string_view::npos;
  int64_t freed = 0, snapshots = 1;
  if (is_one_revision) {
    const auto commit = cache.commit_of(name.revision);
    if (!commit || !is_directory(cache.snapshot(*commit))) {
      fail_with_hint("dllm models lists the revisions", Code::not_found,
                     "the cache has no revision {} of {}", name.revision, shown(name));
    }
    std::vector<std::string> names = revisions_of(cache)[*commit];
    if (std::erase(names, name.revision) > 0 && !names.empty()) {
      // Another name of the commit stays, and its files with it.
      remove_all(join_path(join_path(cache.folder(), "refs"), name.revision));
      return {{"name", text_of(name)}, {"freed", 0}, {"snapshots", 0}, {"names", names}};
    }
    freed = remove_snapshot(cache, *commit);
  } else {
    snapshots = static_cast<int64_t>(commits_of(cache).size());
    for (const std::string& commit : commits_of(cache)) freed += own_bytes(cache, commit);
    freed += bytes_of(blobs_of(cache));
    remove_all(cache.folder());
    remove_all(parent_path(cache.lock("any")));
  }
  return {{"name", text_of(name)}, {"freed", freed}, {"snapshots", snapshots}};
}

} // namespace dllm::hub
