#include "training_replaced.h"

#include "training.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

namespace dllm::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReplaced = "/replaced";
constexpr const char* kSubfolders[] = {"best", "tensorboard"};

// Returns true for an event file that the sink of dllm wrote.
bool is_own_events(const std::string& name) {
  return name.starts_with("events.out.tfevents.") && name.ends_with(".dllm");
}

// Returns the paths of a run's files and checkpoints in its folder.
std::vector<fs::path> files_of_run(const std::string& root) {
  constexpr const char* kNames[] = {"tokenizer.json", "tokenizer_config.json", "metrics.jsonl",
                                    "metrics.csv",    "examples.jsonl",        "run.json"};
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root + "/best", ignored)) {
    if (is_checkpoint(entry.path())) found.push_back("best" / entry.path().filename());
  }
  for (const auto& entry : fs::directory_iterator(metrics_file(root, "tensorboard"), ignored)) {
    const fs::path name = entry.path().filename();
    if (is_own_events(name.string())) found.push_back("tensorboard" / name);
  }
  for (const auto& entry : fs::directory_iterator(root, ignored)) {
    const fs::path name = entry.path().filename();
    const bool is_own = std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
    if (is_own || is_checkpoint(entry.path())) found.push_back(name);
  }
  return found;
}

void remove_empty_folders(const std::string& root) {
  std::error_code ignored; // a folder with other files stays
  for (const char* folder : kSubfolders) fs::remove(fs::path(root) / folder, ignored);
}

void move_run(const std::string& from, const std::string& to) {
  for (const fs::path& path : files_of_run(from)) {
    fs::create_directories((fs::path(to) / path).parent_path());
    fs::rename(fs::path(from) / path, fs::path(to) / path);
  }
  remove_empty_folders(from);
}

void remove_run(const std::string& root) {
  std::error_code ignored;
  for (const fs::path& path : files_of_run(root)) fs::remove_all(fs::path(root) / path, ignored);
  remove_empty_folders(root);
}

// Removes the files of a new run, and moves the old files back. Prints a line when it cannot.
void move_back(const std::string& root) {
  try {
    remove_run(root);
    move_run(root + kReplaced, root);
    fs::remove(root + kReplaced);
  } catch (const fs::filesystem_error& error) {
    std::fprintf(stderr, "the run that --fresh replaced is in %s%s: %s\n", root.c_str(), kReplaced,
                 error.code().message().c_str());
  }
}

} // namespace

ReplacedRun::ReplacedRun(const std::string& root) : root_(root) {
  try {
    move_run(root, root + kReplaced);
  } catch (const fs::filesystem_error& error) {
    throw Failure(DLLM_PERMISSION_DENIED,
                  "cannot move the old run to " + root + kReplaced + ": " + error.code().message(),
                  "remove it, or name another folder with --out");
  }
}

ReplacedRun::~ReplacedRun() {
  std::error_code ignored;
  if (root_.empty() || !fs::exists(root_ + kReplaced, ignored)) return;
  move_back(root_);
  std::fprintf(stderr, "%s has the run before again: the new one computed no step\n",
               root_.c_str());
}

void ReplacedRun::remove() {
  if (root_.empty()) return;
  remove_run(root_ + kReplaced);
  std::error_code ignored;
  fs::remove(root_ + kReplaced, ignored);
  root_.clear();
}

void recover_replaced(const std::string& root) {
  std::error_code ignored;
  if (files_of_run(root + kReplaced).empty()) return;
  const RunLock lock(root);
  std::fprintf(stderr, "%s has the run again that a killed start with --fresh moved away\n",
               root.c_str());
  move_back(root);
}

} // namespace dllm::cli
