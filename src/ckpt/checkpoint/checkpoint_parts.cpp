#include "ckpt/checkpoint/checkpoint_parts.h"

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <functional>
#include <thread>
#include <utility>

namespace dllm::ckpt {
namespace {

constexpr std::chrono::milliseconds kLook(10); // time between two looks at the folder
constexpr std::chrono::seconds kLate(5); // time after which a network file system shows a new file

std::string mark(const std::string& folder, int64_t process, const char* how) {
  return join_path(folder, fmt::format("part_{:03}.{}", process, how));
}

bool shows_up(const std::function<bool()>& is_there) {
  const auto end = std::chrono::steady_clock::now() + kLate;
  while (!is_there()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

// Returns the report `how` ("done", "failed") of a process for this save, or null.
Json report_of(const std::string& folder, int64_t process, const char* how, const std::string& id) {
  const std::string path = mark(folder, process, how);
  if (!file_exists(path)) return nullptr;
  Json report = parse_json(read_text(path, kMaxCommitBytes), path);
  const bool is_ours = report.is_object() && report.value("id", "") == id;
  return is_ours ? report : Json(nullptr);
}

// Waits for one process and returns its report. Removing part_NNN.open is the last thing that the
// process does.
Json wait_for_part(const std::string& folder, int64_t process, const std::string& id,
                   const Task* task) {
  while (file_exists(mark(folder, process, "open"))) {
    check_task(task);
    std::this_thread::sleep_for(kLook);
  }
  Json report;
  const bool has_report = shows_up([&] {
    report = report_of(folder, process, "done", id);
    if (report.is_null()) report = report_of(folder, process, "failed", id);
    return !report.is_null();
  });
  if (has_report) return report;
  fail(Code::aborted, "rank {} did not write its part of the checkpoint; its log has the reason",
       process);
}

CommitEntry entry_of(const Json& file, int64_t process) {
  try {
    CommitEntry entry{file.at("path").get<std::string>(), file.at("size").get<int64_t>(),
                      file.at("crc32").get<uint32_t>()};
    if (is_safe_path(entry.path)) return entry;
  } catch (const Json::exception&) { // reported below
  }
  fail(Code::data_loss, "rank {} wrote a wrong list of the files of its part of the checkpoint",
       process);
}

} // namespace

std::string open_parts(const CheckpointWriter& writer, int64_t processes) {
  const std::string id = unique_word();
  for (int64_t process = 1; process < processes; ++process)
    write_file_atomic(mark(writer.folder(), process, "open"), id);
  return id;
}

std::vector<CommitEntry> wait_for_parts(const CheckpointWriter& writer, int64_t processes,
                                        const std::string& id, const Task* task) {
  std::vector<CommitEntry> entries;
  for (int64_t process = 1; process < processes; ++process) {
    const Json report = wait_for_part(writer.folder(), process, id, task);
    if (report.contains("error")) {
      throw Error(static_cast<Code>(report.at("code").get<int>()),
                  fmt::format("rank {}: {}", process, report.at("error").get<std::string>()),
                  report.at("hint").get<std::string>());
    }
    for (const Json& file : report.at("files")) entries.push_back(entry_of(file, process));
  }
  for (int64_t process = 1; process < processes; ++process) {
    for (const char* how : {"open", "done", "failed"})
      remove_all(mark(writer.folder(), process, how));
  }
  return entries;
}

bool sees_part(const std::string& folder, int64_t process, const std::string& id) {
  const std::string path = mark(folder, process, "open");
  return shows_up([&] { return file_exists(path) && read_text(path) == id; });
}

CheckpointPart::CheckpointPart(std::string folder, int64_t process, std::string id)
    : folder_(std::move(folder)), process_(process), id_(std::move(id)) {}

CheckpointPart::~CheckpointPart() {
  if (!ended_) fail(Error(Code::aborted, "its part of the checkpoint was not finished"));
}

void CheckpointPart::finish(const std::vector<std::string>& files, const Task* task) {
  Json list = Json::array();
  for (const std::string& relative : files) {
    const std::string path = join_path(folder_, relative);
    sync_path(path);
    const ContentRef file = open_content(path);
    list.push_back(
        {{"path", relative}, {"size", file->size()}, {"crc32", file_checksum(*file, task)}});
  }
  end("done", Json{{"id", id_}, {"files", list}}.dump());
}

void CheckpointPart::fail(const Error& reason) noexcept {
  ended_ = true;
  try {
    log(LogLevel::error, "rank {} cannot write its part of the checkpoint: {}", process_,
        reason.text());
    end("failed", Json{{"id", id_},
                       {"code", static_cast<int>(reason.code())},
                       {"error", reason.text()},
                       {"hint", reason.hint()}}
                      .dump());
  } catch (const std::exception&) { // the first process has failed and removed the folder
  }
}

// Writes the report and removes part_NNN.open, even if the disk is too full for the report. Does
// nothing if part_NNN.open belongs to another save, because this process is then of a former job.
void CheckpointPart::end(const char* how, const std::string& content) {
  const std::string open = mark(folder_, process_, "open");
  if (!file_exists(open) || read_text(open) != id_) return;
  try {
    write_file_atomic(mark(folder_, process_, how), content);
  } catch (...) {
    remove_all(open);
    throw;
  }
  ended_ = true;
  remove_all(open);
}

} // namespace dllm::ckpt
