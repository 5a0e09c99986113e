#include "hub/cache/cache.h"

#include "base/error.h"
#include "base/files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace dllm::hub {
namespace {

constexpr std::string_view kModels = "models--", kDatasets = "datasets--";

} // namespace

std::string folder_name(const Name& name) {
  std::string repo = name.repo;
  repo.replace(repo.find('/'), 1, "--");
  return std::string(name.kind == RepoKind::model ? kModels : kDatasets) + repo;
}

std::optional<Name> name_of_folder(std::string_view folder) {
  RepoKind kind = RepoKind::model;
  if (folder.starts_with(kDatasets))
    kind = RepoKind::dataset;
  else if (!folder.starts_with(kModels))
    return std::nullopt;
  std::string repo(folder.substr(kind == RepoKind::model ? kModels.size() : kDatasets.size()));
  const size_t middle = repo.find("--");
  if (middle == std::string::npos) return std::nullopt;
  repo.replace(middle, 2, "/");
  return parse_name(repo, kind);
}

std::optional<Name> name_of_snapshot(const std::string& path) {
  constexpr std::string_view kBetween = "/snapshots/";
  const size_t between = path.find(kBetween);
  if (between == std::string::npos) return std::nullopt;
  std::optional<Name> name = name_of_folder(file_name(path.substr(0, between)));
  const size_t begin = between + kBetween.size();
  if (!name || begin == path.size()) return std::nullopt;
  name->revision = path.substr(begin, path.find('/', begin) - begin);
  return name;
}

RepoCache::RepoCache(std::string root, const Name& name)
    : root_(std::move(root)), folder_(join_path(root_, folder_name(name))) {}

std::string RepoCache::blob(const std::string& etag) const {
  return join_path(join_path(folder_, "blobs"), etag);
}

std::string RepoCache::incomplete(const std::string& etag) const {
  return blob(etag) + ".incomplete";
}

std::string RepoCache::lock(const std::string& etag) const {
  return join_path(join_path(join_path(root_, ".locks"), file_name(folder_)), etag + ".lock");
}

std::string RepoCache::snapshot(const std::string& commit) const {
  return join_path(join_path(folder_, "snapshots"), commit);
}

std::string RepoCache::file(const std::string& commit, const std::string& path) const {
  return join_path(snapshot(commit), path);
}

std::string RepoCache::tree(const std::string& commit) const {
  return join_path(join_path(folder_, "trees"), commit + ".json");
}

std::optional<std::string> RepoCache::commit_of(const std::string& revision) const {
  constexpr int64_t kMostBytes = 1024;
  if (is_commit(revision)) return revision;
  const std::string path = join_path(join_path(folder_, "refs"), revision);
  if (!file_exists(path) || is_directory(path)) return std::nullopt;
  std::string commit = read_text(path, kMostBytes);
  while (commit.ends_with('\n')) commit.pop_back();
  return is_commit(commit) ? std::optional(commit) : std::nullopt;
}

void RepoCache::write_ref(const std::string& revision, const std::string& commit) const {
  const std::string path = join_path(join_path(folder_, "refs"), revision);
  make_directories(parent_path(path));
  write_file_atomic(path, commit);
}

void RepoCache::link(const std::string& commit, const std::string& path,
                     const std::string& etag) const {
  const std::string to = file(commit, path);
  if (file_exists(to)) return;
  make_directories(parent_path(to));
  if (is_link(to)) remove_all(to); // its blob is gone
  std::string from = "../../";
  for (int64_t i = std::count(path.begin(), path.end(), '/'); i > 0; --i) from += "../";
  from += "blobs/" + etag;
  if (::symlink(from.c_str(), to.c_str()) == 0 || errno == EEXIST) return;
  if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS) fail_errno("create", to);
  rename_path(blob(etag), to); // a file system without links, where huggingface_hub does the same
}

} // namespace dllm::hub
