#include "hub/data_set.h"

#include "base/error.h"
#include "base/http/ranged_content.h"
#include "base/log.h"
#include "base/store/objects.h" // TransferTask
#include "hub/cache/cache.h"
#include "hub/cache/tree.h"
#include "hub/choice.h"
#include "hub/loading/range_loader.h"
#include "hub/loading/transfer.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

namespace dllm::hub {
namespace {

using Files = std::vector<RemoteFile>;

Name without_file(Name name) {
  name.file.clear();
  return name;
}

// Readers leave out what begins with '.' in folders of this machine, too.
bool is_hidden(const std::string& path) {
  return path.front() == '.' || path.find("/.") != std::string::npos;
}

// Sorts files as a walk over the folders does: name by name.
void sort_by_names(Files& files) {
  std::sort(files.begin(), files.end(), [](const RemoteFile& a, const RemoteFile& b) {
    return std::filesystem::path(a.path) < std::filesystem::path(b.path);
  });
}

class FileByRanges final : public http::RangedContent {
public:
  explicit FileByRanges(RangeLoader loader)
      : RangedContent(int64_t{256} << 10), loader_(std::move(loader)) {}
  int64_t size() const override { return loader_.facts().size; }

private:
  const Task* task() const override { return store::TransferTask::current(); }
  void fetch(int64_t at, int64_t size, char* to, const Task* task) const override {
    char* out = to;
    const auto add = [&out](std::string_view piece) {
      std::memcpy(out, piece.data(), piece.size());
      out += piece.size();
    };
    loader_.load(at, at + size, {.add = add}, task);
  }

  const RangeLoader loader_;
};

} // namespace

DataSet::DataSet(Name name, const Task* task)
    : client_(settings_of_environment(), without_file(std::move(name))),
      known_(known_files(client_, task)) {
  Choice choice = choose_rows(known_.listing);
  top_folder_ = std::move(choice.path);
  rows_ = std::move(choice.contents);
  std::erase_if(rows_, [](const RemoteFile& file) { return is_hidden(file.path); });
  sort_by_names(rows_);
  if (!known_.reason.empty()) log(LogLevel::warn, "{}; the cache is used", known_.reason);
  const RepoCache cache(client_.settings().cache, client_.name());
  if (!known_.is_local || kept_tree(cache, known_.listing.commit)) return;
  log(LogLevel::warn, "the cache has no list of the files of {}: the files in the cache are used",
      shown(client_.name()));
}

bool DataSet::is_folder(const std::string& path) const {
  return path.empty() || std::any_of(rows_.begin(), rows_.end(), [&](const RemoteFile& file) {
           return file.path.starts_with(path + "/");
         });
}

Files DataSet::files_at(const std::string& path) const {
  Files found;
  std::copy_if(rows_.begin(), rows_.end(), std::back_inserter(found), [&](const RemoteFile& file) {
    return path.empty() || file.path.starts_with(path + "/");
  });
  if (!found.empty()) return found;
  Name name = client_.name();
  name.file = path;
  found = choose_files(known_.listing, name).contents; // fails for a data set without rows
  sort_by_names(found);
  return found;
}

const RemoteFile& DataSet::file_at(const std::string& path) const {
  const Files& all = known_.listing.files; // sorted by path
  return *std::lower_bound(
      all.begin(), all.end(), path,
      [](const RemoteFile& file, const std::string& wanted) { return file.path < wanted; });
}

std::string DataSet::address(const std::string& file) const {
  Name name = client_.name();
  name.file = file;
  return address_of(name);
}

std::optional<std::string> DataSet::cached(const RemoteFile& file) const {
  const RepoCache cache(client_.settings().cache, client_.name());
  const std::string path = cache.file(known_.listing.commit, file.path);
  return file_exists(path) ? std::optional(path) : std::nullopt;
}

size_t DataSet::count_missing(const Files& files) const {
  return static_cast<size_t>(std::count_if(files.begin(), files.end(),
                                           [&](const RemoteFile& file) { return !cached(file); }));
}

void DataSet::check_reachable(const RemoteFile& file) const {
  if (!known_.is_local || cached(file)) return;
  fail_missing(client_.name(), known_, std::max<size_t>(1, count_missing(rows_)), rows_.size());
}

void DataSet::check_loadable(const Files& files) const {
  const size_t missing = count_missing(files);
  if (known_.is_local && missing > 0) fail_missing(client_.name(), known_, missing, files.size());
  const RepoCache cache(client_.settings().cache, client_.name());
  int64_t bytes = 0;
  for (const RemoteFile& file : files) {
    if (!cached(file)) bytes += std::max<int64_t>(0, file.size - kept_bytes(cache, file));
  }
  if (bytes > 0) check_space(shown(client_.name()), bytes, client_.settings().cache);
}

std::string DataSet::load(const RemoteFile& file, Progress& progress, const Task* task) const {
  if (const auto path = cached(file)) return *path;
  check_reachable(file);
  const RepoCache cache(client_.settings().cache, client_.name());
  try {
    load_file(client_, cache, known_.listing.commit, file, progress, task);
  } catch (const Error& error) {
    fail_unreachable(error);
  }
  return cache.file(known_.listing.commit, file.path);
}

ContentRef DataSet::open_by_ranges(const RemoteFile& file, const Task* task) const {
  check_reachable(file);
  try {
    FileFacts facts = ask_facts(client_, known_.listing.commit, file, task);
    return std::make_shared<FileByRanges>(
        RangeLoader(client_, known_.listing.commit, file.path, std::move(facts)));
  } catch (const Error& error) {
    fail_unreachable(error);
  }
}

void DataSet::fail_unreachable(const Error& error) const {
  if (error.code() != Code::unavailable) throw;
  throw Error(error.code(),
              fmt::format("{}; {} of {} files of {} are not in the cache", error.text(),
                          count_missing(rows_), rows_.size(), shown(client_.name())),
              fmt::format("dllm pull {} loads them when the hub answers", text_of(client_.name())));
}

} // namespace dllm::hub
