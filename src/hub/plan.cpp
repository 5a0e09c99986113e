#include "hub/plan.h"

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/number.h"
#include "hub/cache/blob_lock.h"
#include "hub/cache/snapshot.h"
#include "hub/cache/tree.h"

#include <sys/statvfs.h>

#include <algorithm>

namespace dllm::hub {
namespace {

// Returns the free bytes of the file system in which a folder is, or will be.
int64_t free_bytes(std::string folder) {
  while (!is_directory(folder) && folder != parent_path(folder)) folder = parent_path(folder);
  struct statvfs info {};
  if (::statvfs(folder.c_str(), &info) != 0) return INT64_MAX;
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

Plan make_plan(const RepoCache& cache, const Name& name, Known known, const Choice& choice) {
  Plan plan;
  plan.name = name;
  plan.commit = known.listing.commit;
  plan.folder = cache.snapshot(plan.commit);
  plan.path = choice.path.empty() ? plan.folder : join_path(plan.folder, choice.path);
  const auto add = [&](const RemoteFile& file, bool is_weights) {
    const bool is_cached = file_exists(cache.file(plan.commit, file.path));
    plan.files.push_back({file, is_cached, is_weights, is_cached ? 0 : kept_bytes(cache, file)});
  };
  for (const RemoteFile& file : choice.descriptions) add(file, false);
  for (const RemoteFile& file : choice.contents) add(file, true);
  plan.free = free_bytes(cache.folder());
  plan.known = std::move(known);
  return plan;
}

// Returns the files of a revision in the cache, or nothing. For a data set that is the list of its
// files; where another program has loaded it without a list, it is the files that are there.
std::optional<Listing> local_files(const RepoCache& cache, const Name& name) {
  const std::optional<std::string> commit = cache.commit_of(name.revision);
  if (!commit || !is_directory(cache.snapshot(*commit))) return std::nullopt;
  if (name.kind == RepoKind::dataset) {
    if (std::optional<Listing> tree = kept_tree(cache, *commit)) return tree;
  }
  Listing found;
  found.commit = *commit;
  found.files = snapshot_files(cache, *commit);
  return found;
}

// Returns the plan of what the cache has, or nothing if files of a model are missing.
std::optional<Plan> local_plan(const RepoCache& cache, const Name& name, Known known,
                               bool weights) {
  try {
    const Choice choice = weights || name.kind == RepoKind::dataset
                              ? choose_files(known.listing, name)
                              : choose_descriptions(known.listing, name);
    const std::string commit = known.listing.commit;
    if (weights && !is_whole(cache, commit, choice, name)) return std::nullopt;
    return make_plan(cache, name, std::move(known), choice);
  } catch (const Error&) { // files that the name needs are not there
    return std::nullopt;
  }
}

size_t count_missing(const Plan& plan) {
  return static_cast<size_t>(std::count_if(plan.files.begin(), plan.files.end(),
                                           [](const Plan::File& file) { return !file.is_cached; }));
}

[[noreturn]] void fail_not_cached(const Name& name, const std::string& reason) {
  if (!reason.empty()) {
    fail_with_hint(fmt::format("dllm pull {} loads it when the hub answers", text_of(name)),
                   Code::unavailable, "{}, and {} is not in the cache as a whole", reason,
                   shown(name));
  }
  fail_with_hint(fmt::format("run dllm pull {} without HF_HUB_OFFLINE", text_of(name)),
                 Code::not_found, "{} is not in the cache as a whole, and the hub is not asked",
                 shown(name));
}

} // namespace

Known known_files(const Client& client, const Task* task) {
  const Name& name = client.name();
  const RepoCache cache(client.settings().cache, name);
  const bool is_offline = client.settings().is_offline;
  if (is_offline || (name.kind == RepoKind::dataset && is_commit(name.revision))) {
    std::optional<Listing> found =
        is_offline ? local_files(cache, name) : kept_tree(cache, name.revision);
    if (found) return {std::move(*found), is_offline};
    if (is_offline) fail_not_cached(name, "");
  }
  try {
    return {list_files(client, task)};
  } catch (const Error& error) {
    if (error.code() != Code::unavailable) throw;
    std::optional<Listing> found = local_files(cache, name);
    if (!found) throw;
    return {std::move(*found), true, error.text()};
  }
}

Plan plan_of(const Client& client, bool weights, const Task* task) {
  const Name& name = client.name();
  const RepoCache cache(client.settings().cache, name);
  Known known = known_files(client, task);
  if (!known.is_local) {
    Choice choice = choose_files(known.listing, name);
    if (!weights) choice.contents.clear();
    return make_plan(cache, name, std::move(known), choice);
  }
  const std::string reason = known.reason;
  std::optional<Plan> plan = local_plan(cache, name, std::move(known), weights);
  if (!plan) fail_not_cached(name, reason);
  if (!reason.empty() && count_missing(*plan) == 0)
    log(LogLevel::warn, "{}; the copy in the cache is used", reason);
  return *plan;
}

std::optional<Plan> cached_plan(const std::string& root, const Name& name) {
  if (root.empty()) return std::nullopt;
  const RepoCache cache(root, name);
  std::optional<Listing> found = local_files(cache, name);
  if (!found) return std::nullopt;
  std::optional<Plan> plan = local_plan(cache, name, {std::move(*found), true}, true);
  return plan && count_missing(*plan) == 0 ? std::move(plan) : std::nullopt;
}

int64_t kept_bytes(const RepoCache& cache, const RemoteFile& file) {
  if (file.sha256.empty()) return 0;
  if (file_exists(cache.blob(file.sha256))) return std::max<int64_t>(0, file.size);
  const std::string path = cache.incomplete(file.sha256);
  return file_exists(path) ? std::min(file_size(path), file.size) : 0;
}

int64_t missing_bytes(const Plan& plan) {
  int64_t sum = 0;
  for (const Plan::File& file : plan.files) {
    if (!file.is_cached) sum += std::max<int64_t>(0, file.remote.size - file.kept);
  }
  return sum;
}

void check_whole(const Plan& plan) {
  const size_t missing = count_missing(plan);
  if (plan.known.is_local && missing > 0)
    fail_missing(plan.name, plan.known, missing, plan.files.size());
}

void fail_missing(const Name& name, const Known& known, size_t missing, size_t count) {
  const std::string what =
      fmt::format("{} of {} files of {} are not in the cache", missing, count, shown(name));
  if (known.reason.empty()) {
    fail_with_hint(fmt::format("run dllm pull {} without HF_HUB_OFFLINE", text_of(name)),
                   Code::not_found, "{}, and the hub is not asked", what);
  }
  fail_with_hint(fmt::format("dllm pull {} loads them when the hub answers", text_of(name)),
                 Code::unavailable, "{}, and the hub does not answer: {}", what, known.reason);
}

void check_space(const std::string& what, int64_t missing, const std::string& cache) {
  const int64_t free = free_bytes(cache);
  if (missing <= free) return;
  fail_with_hint("free some space, or set HF_HUB_CACHE to a folder on another disk",
                 Code::resource_exhausted, "{} needs {} on the disk, and {} are free in {}", what,
                 memory_text(static_cast<double>(missing)), memory_text(static_cast<double>(free)),
                 cache);
}

void keep_revision(const Client& client, const std::string& commit, const Task* task) {
  const Name& name = client.name();
  const RepoCache cache(client.settings().cache, name);
  if (name.revision == commit || cache.commit_of(name.revision) == commit) return;
  const BlobLock lock(cache.lock("refs"), "revision " + name.revision, task);
  cache.write_ref(name.revision, commit);
}

void keep_list(const Client& client, const Known& known, const Task* task) {
  const RepoCache cache(client.settings().cache, client.name());
  if (known.is_local || !keep_tree(cache, known.listing, task)) return;
  keep_revision(client, known.listing.commit, task);
}

} // namespace dllm::hub
