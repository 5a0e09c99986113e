#include "ckpt/checkpoint/object_checkpoint.h"

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/store/objects.h"
#include "ckpt/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <vector>

namespace dllm::ckpt {
namespace {

constexpr const char* kObjectMark = "COMMIT.partial"; // the mark has this name in local folders too

std::string absolute_variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && value[0] == '/' ? value : "";
}

// Names of objects, relative to the folder of a checkpoint.
using Names = std::set<std::string>;

// Returns the objects of every folder step_000500 below root, by step.
std::map<int64_t, Names> steps_of(const std::string& root, const Task* task) {
  std::map<int64_t, Names> steps;
  for (const store::Object& object : store::list_objects(root, task)) {
    const size_t slash = object.path.find('/');
    if (slash == std::string::npos) continue;
    const std::string name = object.path.substr(0, slash);
    const auto step = checkpoint_step(name);
    if (step && name == checkpoint_name(*step)) steps[*step].insert(object.path.substr(slash + 1));
  }
  return steps;
}

// Returns the first object that COMMIT does not name, or "". Every object of a folder with the mark
// and without COMMIT belongs to a save.
std::string foreign_object(const std::string& folder, const Names& names, const Task* task) {
  if (names.contains(kObjectMark) && !names.contains(kCommitName)) return "";
  if (!names.contains(kCommitName)) return *names.begin();
  const store::TransferTask transfers(task);
  Names own = {kCommitName, kObjectMark};
  const std::string path = join_path(folder, kCommitName);
  const std::string text = read_text(path, kMaxCommitBytes);
  try {
    for (const CommitEntry& entry : parse_commit(text, path).files) own.insert(entry.path);
  } catch (const Error&) {
    return kCommitName; // a damaged COMMIT does not show whose the objects are
  }
  for (const std::string& name : names) {
    if (!own.contains(name)) return name;
  }
  return "";
}

// Deletes a checkpoint. Writes the mark first and removes it last, so that after a kill the next
// save removes the rest.
void delete_objects(const std::string& folder, Names names, const Task* task) {
  const std::string mark = join_path(folder, kObjectMark), commit = join_path(folder, kCommitName);
  if (names.erase(kCommitName) > 0) {
    if (!names.contains(kObjectMark)) store::put_text(mark, "", task);
    store::remove_objects({commit}, task);
  }
  names.erase(kObjectMark);
  std::vector<std::string> paths;
  for (const std::string& name : names) paths.push_back(join_path(folder, name));
  store::remove_objects(paths, task);
  store::remove_objects({mark}, task);
}

void add_files(const std::string& folder, const std::string& below,
               std::vector<std::string>* files) {
  for (const std::string& name : list_directory(folder)) {
    const std::string path = join_path(folder, name);
    const std::string relative = below.empty() ? name : below + "/" + name;
    if (is_directory(path))
      add_files(path, relative, files);
    else if (relative != kCommitName && relative != kObjectMark)
      files->push_back(relative);
  }
}

} // namespace

std::string staging_folder(const std::string& root) {
  const store::Address address = store::parse_address(root);
  if (address.key.empty()) {
    fail_with_hint("s3://bucket/runs/first", Code::invalid_argument,
                   "{} is a whole bucket: a run needs a folder in it", root);
  }
  std::string folder = absolute_variable("DLLM_STAGING");
  if (folder.empty()) {
    const std::string cache = absolute_variable("XDG_CACHE_HOME"), home = absolute_variable("HOME");
    if (cache.empty() && home.empty()) {
      fail_with_hint("set DLLM_STAGING to a folder with room for a checkpoint",
                     Code::failed_precondition, "there is no local folder for the files of {}",
                     root);
    }
    folder = join_path(cache.empty() ? join_path(home, ".cache") : cache, "dllm/staging");
  }
  return join_path(join_path(join_path(folder, address.scheme), address.bucket), address.key);
}

ObjectCheckpoint::ObjectCheckpoint(std::string root, int64_t step, const Task* task)
    : root_(std::move(root)), step_(step) {
  while (root_.ends_with('/')) root_.pop_back();
  folder_ = join_path(root_, checkpoint_name(step));
  for (const auto& [found, names] : steps_of(root_, task)) {
    const std::string folder = join_path(root_, checkpoint_name(found));
    if (names.contains(kObjectMark) && !names.contains(kCommitName)) {
      delete_objects(folder, names, task);
      continue;
    }
    const std::string foreign =
        found == step_ ? foreign_object(folder, names, task) : std::string();
    if (foreign.empty()) continue;
    fail_with_hint("move it away, or save elsewhere", Code::already_exists,
                   "{} is not replaced: no save wrote {}", folder, foreign);
  }
}

void ObjectCheckpoint::begin(const Task* task) {
  Names before;
  for (const store::Object& object : store::list_objects(folder_, task)) before.insert(object.path);
  if (!before.empty()) delete_objects(folder_, before, task);
  store::put_text(join_path(folder_, kObjectMark), "", task);
}

void ObjectCheckpoint::upload(const std::string& local, const Task* task) {
  std::vector<std::string> files;
  add_files(local, "", &files);
  std::sort(files.begin(), files.end());
  for (const std::string& file : files)
    store::put_file(join_path(folder_, file), join_path(local, file), task);
}

void ObjectCheckpoint::seal(const std::string& commit, const KeptCheckpoints& kept,
                            const Task* task) {
  store::put_text(join_path(folder_, kCommitName), commit, task);
  try { // from here on the checkpoint is complete, even after an error
    store::remove_objects({join_path(folder_, kObjectMark)});
    if (kept.last > 0) delete_older(kept);
  } catch (const Error& error) {
    log(LogLevel::warn, "old objects stay in {}: {}", root_, error.text());
  }
}

void ObjectCheckpoint::delete_older(const KeptCheckpoints& kept) {
  std::map<int64_t, Names> steps = steps_of(root_, nullptr);
  // This checkpoint is kept even if later steps exist, because the run may have been set back to an
  // earlier step.
  steps.erase(step_);
  std::erase_if(steps, [](const auto& entry) { return !entry.second.contains(kCommitName); });
  for (auto it = steps.begin(); it != steps.end(); ++it) {
    if (static_cast<int64_t>(std::distance(it, steps.end())) < kept.last) return;
    if (kept.steps.contains(it->first)) continue;
    const std::string folder = join_path(root_, checkpoint_name(it->first));
    const std::string foreign = foreign_object(folder, it->second, nullptr);
    if (foreign.empty())
      delete_objects(folder, it->second, nullptr);
    else
      log(LogLevel::warn, "{} is kept: {} was not written by a save", folder, foreign);
  }
}

} // namespace dllm::ckpt
