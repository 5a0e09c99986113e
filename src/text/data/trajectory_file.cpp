#include "text/data/trajectory_file.h"

#include "base/error.h"
#include "text/readers/readers.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace dllm::text {
namespace {

constexpr int64_t kMostLine = int64_t{1} << 30; // bytes

// Fails for a file that is not one of trajectories, which would be lost.
void check_replaced(const std::string& path, Task* task) {
  TextWindow window(open_bytes(std::make_shared<const InputFile>(path), task), kMostLine);
  while (const auto line = window.next_line()) {
    if (is_blank(*line)) continue;
    const bool is_cut = line->back() != '\n' && file_exists(settings_path(path));
    try {
      parse_trajectory(without_end(*line), path);
    } catch (const Error&) {
      if (is_cut) return;
      fail_with_hint("choose another file, or remove this one", Code::already_exists,
                     "{} is there already, and it is not a file of trajectories", path);
    }
    return;
  }
}

} // namespace

int64_t read_trajectories(
    const std::string& path, Task* task,
    const std::function<void(Trajectory&& trajectory, const std::string& place)>& visit) {
  const auto file = std::make_shared<const InputFile>(path);
  TextWindow window(open_bytes(file, task), kMostLine);
  std::set<int64_t> seen;
  int64_t whole = 0;
  while (const auto line = window.next_line()) {
    check_task(task);
    const bool ends = line->back() == '\n';
    const std::string place = fmt::format("{}:{}", path, window.line());
    if (!is_blank(*line)) {
      Trajectory made;
      try {
        made = parse_trajectory(without_end(*line), place);
      } catch (const Error&) {
        if (!ends) return whole;
        throw;
      }
      if (!seen.insert(made.idx).second) {
        fail_with_hint("remove one of the lines", Code::data_loss,
                       "{}: idx {} has a trajectory in an earlier line", place, made.idx);
      }
      visit(std::move(made), place);
    }
    whole += std::ssize(*line);
    if (task != nullptr) task->set_progress(whole, file->size());
  }
  return whole;
}

TrajectoryFile::TrajectoryFile(const std::string& path, const Json& settings, bool fresh,
                               Task* task)
    : file_(path, true), lock_(path) {
  int64_t whole = 0;
  if (fresh) {
    check_replaced(path, task);
  } else {
    whole = read_trajectories(
        path, task, [&](Trajectory&& made, const std::string&) { written_.insert(made.idx); });
  }
  if (whole > 0) check_settings(path, settings_path(path), settings);
  std::error_code none;
  std::filesystem::resize_file(path, static_cast<uintmax_t>(whole), none);
  if (none)
    fail(Code::permission_denied, "cannot cut {} after its last whole line: {}", path,
         none.message());
  if (whole == 0)
    write_settings(settings_path(path), settings);
  else if (InputFile(path).read(whole - 1, 1).data()[0] != std::byte{'\n'})
    file_.write("\n");
}

void TrajectoryFile::append(int64_t idx, const std::string& line) {
  const std::string text = line + "\n";
  errno = 0;
  if (file_.write(text) < text.size()) {
    fail_with_hint("make room and call again, which goes on after the last whole line",
                   Code::resource_exhausted, "cannot write row {} to {}: {}", idx, file_.path(),
                   std::strerror(errno));
  }
  written_.insert(idx);
}

} // namespace dllm::text
