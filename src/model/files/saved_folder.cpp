#include "model/adapters/adapter_save.h"
#include "model/files/save.h"

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>

namespace dllm::model {
namespace {

constexpr std::string_view kPartial = ".partial";
constexpr int64_t kMaxConfigBytes = int64_t{64} << 20;

// The names of the files that a save of one kind writes.
struct Form {
  std::string config;       // the last file
  std::string_view weights; // the first word of their names
  bool has_side_files;      // files of the tokenizer
  std::string_view other;   // one more file; empty: none
  // A member of the config that a save writes and other programs do not, or the reverse.
  std::string member;
  bool has_member;

  // The name under which the config is written.
  std::string mark() const { return config + std::string(kPartial); }
};

const Form& form_of(FolderKind kind) {
  static const Form model{kConfigFile, "model", true, "", "dllm", true},
      adapter{"adapter_config.json", "adapter_model", false, kUseFile, "auto_mapping", false};
  return kind == FolderKind::adapter ? adapter : model;
}

// Matches model.safetensors, model-00001-of-00004.safetensors and model.safetensors.index.json.
bool is_weights_name(const Form& form, std::string_view name) {
  if (!name.starts_with(form.weights)) return false;
  name.remove_prefix(form.weights.size());
  if (name == ".safetensors" || name == ".safetensors.index.json") return true;
  constexpr std::string_view kShard = "-00000-of-00000.safetensors";
  return name.size() == kShard.size() &&
         std::equal(name.begin(), name.end(), kShard.begin(), [](char c, char shape) {
           return shape == '0' ? c >= '0' && c <= '9' : c == shape;
         });
}

bool is_own_name(const Form& form, std::string_view name) {
  if (name.ends_with(kPartial)) name.remove_suffix(kPartial.size());
  const auto same = [&](const char* side) { return name == side; };
  return name == form.config || name == form.other || name == kRowsFile ||
         is_weights_name(form, name) ||
         (form.has_side_files && std::any_of(std::begin(kSideFiles), std::end(kSideFiles), same));
}

// Returns true for a config that a save wrote: config.json with a member "dllm", which files of
// other programs lack, or adapter_config.json without "auto_mapping", which PEFT always writes.
bool is_own_config(const Form& form, const std::string& path) {
  try {
    const Json config = parse_json(read_text(path, kMaxConfigBytes), path);
    return config.is_object() && config.contains(form.member) == form.has_member;
  } catch (const Error&) {
    return false;
  }
}

// Returns the first file of `folder` that no save wrote; "" when a save wrote all of them.
std::string foreign_file(const Form& form, const std::string& folder) {
  const std::vector<std::string> names = list_directory(folder);
  for (const std::string& name : names) {
    const std::string path = join_path(folder, name);
    if (!is_own_name(form, name) || is_link(path) || is_directory(path)) return name;
  }
  if (names.empty() || file_exists(join_path(folder, form.mark()))) return "";
  const std::string config = join_path(folder, form.config);
  if (!file_exists(config)) return names.front();
  return is_own_config(form, config) ? "" : form.config;
}

void check_removable(const Form& form, const std::string& folder) {
  if (is_link(folder) || !is_directory(folder)) {
    fail_with_hint("choose another path, or move it away", Code::already_exists,
                   "{} is not replaced: it is {}", folder,
                   is_link(folder) ? "a symbolic link" : "not a folder");
  }
  const std::string foreign = foreign_file(form, folder);
  if (foreign.empty()) return;
  fail_with_hint("choose another path, or move that file away", Code::already_exists,
                 "{} is not replaced: no save wrote {}", folder, foreign);
}

bool is_there(const std::string& path) {
  return file_exists(path) || is_link(path);
}

void check_overwrite(FolderKind kind, const std::string& folder, bool overwrite) {
  if (overwrite || !is_there(folder)) return;
  if (kind == FolderKind::adapter)
    fail_with_hint("choose another path", Code::already_exists, "{} is there already", folder);
  fail_with_hint("choose another path, or set overwrite", Code::already_exists,
                 "{} is there already", folder);
}

// Empties a save. The config and the mark go last, so that the remains of a killed call are still
// recognized as a save.
void empty_save(const Form& form, const std::string& folder) {
  const std::string mark = form.mark();
  for (const std::string& name : list_directory(folder)) {
    if (name != form.config && name != mark) remove_all(join_path(folder, name));
  }
  for (const std::string& name : {form.config, mark}) remove_all(join_path(folder, name));
}

void remove_save(const Form& form, const std::string& folder) {
  if (!is_there(folder)) return;
  empty_save(form, folder);
  remove_all(folder);
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

} // namespace

FolderSave::FolderSave(std::string folder, bool overwrite, const Task* task, FolderKind kind)
    : kind_(kind), folder_(without_slash(std::move(folder))),
      partial_(folder_ + std::string(kPartial)) {
  if (folder_.empty()) fail(Code::invalid_argument, "the path of the folder to save is empty");
  check_overwrite(kind_, folder_, overwrite);
  lock_partial(task);
  const Form& form = form_of(kind_);
  try {
    check_overwrite(kind_, folder_, overwrite);
    lock_replaced(task);
    for (const std::string& place : {folder_, partial_, folder_ + ".old"}) {
      if (is_there(place)) check_removable(form, place);
    }
    empty_save(form, partial_);
    FileWriter(join_path(partial_, form.mark())).close();
  } catch (...) {
    ::rmdir(partial_.c_str()); // does nothing to one that holds files
    throw;
  }
}

// The lock is on a folder, not on its name. A caller that waited for the lock may find that the
// folder has become `folder`.
void FolderSave::lock_partial(const Task* task) {
  do {
    if (is_link(partial_) || (file_exists(partial_) && !is_directory(partial_)))
      check_removable(form_of(kind_), partial_);
    lock_.reset();
    make_directories(partial_);
    lock_ = std::make_unique<FolderLock>(partial_, task);
  } while (!lock_->at_path());
}

// A save that has put this folder into place holds its lock until the old folder is removed.
void FolderSave::lock_replaced(const Task* task) {
  while (is_directory(folder_) && !is_link(folder_)) {
    replaced_.reset();
    replaced_ = std::make_unique<FolderLock>(folder_, task);
    if (replaced_->at_path()) return;
  }
}

FolderSave::~FolderSave() {
  if (moved_) return;
  try {
    remove_save(form_of(kind_), partial_);
  } catch (const Error& e) {
    log(LogLevel::warn, "{} could not be removed: {}", partial_, e.text());
  }
}

void FolderSave::move_into_place(const std::string& config_text) {
  const Form& form = form_of(kind_);
  write_file_atomic(join_path(partial_, form.config), config_text);
  sync_path(partial_);
  const std::string old = folder_ + ".old";
  if (!is_there(folder_)) {
    rename_path(partial_, folder_);
    moved_ = true;
    return remove_save(form, old);
  }
  if (swap_paths(partial_, folder_)) {
    sync_path(parent_path(folder_));
    moved_ = true;
    return remove_save(form, partial_);
  }
  remove_save(form, old);
  rename_path(folder_, old);
  rename_path(partial_, folder_);
  moved_ = true;
  remove_save(form, old);
}

} // namespace dllm::model
