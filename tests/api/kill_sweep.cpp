// `dllm train` killed with -9 at many moments and started again: no committed checkpoint is lost,
// and the end is the run
// that was never killed, byte for byte.   kill_sweep DLLM KILLS
// The moments are numbers of changes in the run's folder, as inotify counts them, spread over the
// whole run.

#include "world.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
constexpr int kSteps = 5, kKept = 2;

std::string read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string step_name(int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "step_%06lld", static_cast<long long>(step));
  return name;
}

// The changes in a folder and all below it, in order.
class Changes {
public:
  explicit Changes(const fs::path& root) : fd_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    watch(root);
  }
  ~Changes() { ::close(fd_); }
  Changes(const Changes&) = delete;
  Changes& operator=(const Changes&) = delete;

  // Reads what happened within `milliseconds`, up to `most` changes in all.
  void read(int milliseconds, int64_t most) {
    pollfd ready{fd_, POLLIN, 0};
    if (::poll(&ready, 1, milliseconds) <= 0) return;
    alignas(inotify_event) char buffer[4096];
    const ssize_t size = ::read(fd_, buffer, sizeof buffer);
    for (ssize_t at = 0; at < size && count_ < most;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
      at += static_cast<ssize_t>(sizeof *event + event->len);
      if (event->len > 0) take(*event);
    }
  }
  int64_t count() const { return count_; }
  int64_t committed() const {
    return committed_;
  } // the newest checkpoint whose rename was seen; 0: none

private:
  void watch(const fs::path& folder) {
    const int number = ::inotify_add_watch(
        fd_, folder.c_str(), IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE);
    if (number >= 0) folders_[number] = folder;
  }
  void take(const inotify_event& event) {
    ++count_;
    const fs::path path = folders_[event.wd] / event.name;
    const std::string name = path.filename();
    const bool folder = (event.mask & IN_ISDIR) != 0;
    if (folder && (event.mask & (IN_CREATE | IN_MOVED_TO)) != 0) watch(path);
    if (folder && (event.mask & IN_MOVED_TO) != 0 && name.starts_with("step_") &&
        name.find('.') == std::string::npos)
      committed_ = std::max<int64_t>(committed_, std::stoll(name.substr(5)));
  }

  int fd_;
  std::map<int, fs::path> folders_;
  int64_t count_ = 0, committed_ = 0;
};

class Sweep {
public:
  Sweep(std::string program, fs::path work) : program_(std::move(program)), work_(std::move(work)) {
    std::ofstream text(work_ / "text");
    for (int i = 0; i < 120; ++i)
      text << "line " << i << ": the cat sat on the mat and the dog sat on the log.\n";
  }

  // Starts the program over run `name`; kills it at change `moment`, 0: never. Returns its wait
  // status.
  int train(const std::string& name, int64_t moment, int64_t& changes, int64_t& committed) {
    const fs::path run = this->run(name);
    fs::create_directories(run);
    Changes seen(run);
    const pid_t child = start(run);
    int status = 0;
    const int64_t most = moment > 0 ? moment : INT64_MAX;
    while (::waitpid(child, &status, WNOHANG) == 0) {
      seen.read(20, most);
      if (seen.count() < most) continue;
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      break;
    }
    while (moment == 0) { // what was not read yet
      const int64_t before = seen.count();
      seen.read(0, most);
      if (seen.count() == before) break;
    }
    changes = seen.count();
    committed = seen.committed();
    return status;
  }

  // Every run has the same name in a folder of its own: the name stands in the checkpoints.
  fs::path run(const std::string& name) const { return work_ / name / "run"; }

private:
  pid_t start(const fs::path& run) const {
    const std::string text = work_ / "text", out = run.filename(), log = work_ / "log",
                      kept = std::to_string(kKept);
    const std::string steps = std::to_string(kSteps);
    const char* const arguments[] = {program_.c_str(),
                                     "train",
                                     "--data",
                                     text.c_str(),
                                     "--rows",
                                     "line",
                                     "--out",
                                     out.c_str(),
                                     "--layers",
                                     "1",
                                     "--hidden",
                                     "64",
                                     "--vocab",
                                     "280",
                                     "--steps",
                                     steps.c_str(),
                                     "--save-every",
                                     "1",
                                     "--eval-every",
                                     "0",
                                     "--eval-batches",
                                     "1",
                                     "--loader.batch",
                                     "2",
                                     "--loader.length",
                                     "16",
                                     "--loader.epochs",
                                     "0",
                                     "--keep-last",
                                     kept.c_str(),
                                     "--engine.threads",
                                     "1",
                                     nullptr};
    const pid_t child = ::fork();
    if (child != 0) return child;
    const int to = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(to, STDOUT_FILENO);
    ::dup2(to, STDERR_FILENO);
    if (::chdir(run.parent_path().c_str()) != 0) ::_exit(126);
    ::execv(program_.c_str(), const_cast<char* const*>(arguments));
    ::_exit(127);
  }

  std::string program_;
  fs::path work_;
};

bool verified(const fs::path& folder) {
  dllm_checkpoint* checkpoint = nullptr;
  const bool good = dllm_checkpoint_open(folder.c_str(), &checkpoint, nullptr) == DLLM_OK &&
                    dllm_checkpoint_verify(checkpoint, nullptr, nullptr) == DLLM_OK;
  dllm_checkpoint_release(checkpoint);
  return good;
}

// "" when every checkpoint that was committed is there and whole: of those committed the newest
// kKept stay.
std::string lost(const fs::path& run, int64_t committed) {
  int64_t newest = 0;
  for (const auto& entry : fs::directory_iterator(run)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("step_") || name.find('.') != std::string::npos) continue;
    if (!verified(entry.path())) return name + " is there and not whole";
    newest = std::max<int64_t>(newest, std::stoll(name.substr(5)));
  }
  if (newest < committed) return step_name(committed) + " was committed and is missing";
  for (int64_t step = std::max<int64_t>(1, newest - kKept + 1); step < newest; ++step) {
    if (!fs::exists(run / step_name(step))) return step_name(step) + " was removed too early";
  }
  return {};
}

// "" when both folders hold the same names and bytes.
std::string difference(const fs::path& got, const fs::path& want) {
  std::vector<std::string> names[2];
  for (const auto& [folder, list] : {std::pair{&got, &names[0]}, std::pair{&want, &names[1]}}) {
    for (const auto& entry : fs::recursive_directory_iterator(*folder)) {
      if (entry.is_regular_file()) list->push_back(fs::relative(entry.path(), *folder));
    }
    std::sort(list->begin(), list->end());
  }
  if (names[0] != names[1]) return "other files";
  for (const std::string& name : names[1]) {
    if (read_bytes(got / name) != read_bytes(want / name)) return name + " differs";
  }
  return names[1].empty() ? "no file" : "";
}

bool has_leftovers(const fs::path& run) {
  for (const auto& entry : fs::directory_iterator(run)) {
    const std::string name = entry.path().filename();
    if (name.ends_with(".partial") || name.ends_with(".trash")) return true;
  }
  return false;
}

} // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  std::string pattern =
      (::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") + std::string("/dllm_kill_XXXXXX");
  const fs::path work = ::mkdtemp(pattern.data());
  const int64_t kills = std::atoll(arguments[2]);
  Sweep sweep(arguments[1], work);
  int64_t total = 0, committed = 0;
  const int whole_status = sweep.train("whole", 0, total, committed);
  CHECK(whole_status == 0);
  CHECK(committed == kSteps);
  if (failures != 0) std::printf("%s\n", read_bytes(work / "log").c_str());

  const fs::path want = sweep.run("whole") / step_name(kSteps);
  int64_t killed = 0, in_a_save = 0, resumed = 0;
  for (int64_t i = 0; i < kills && failures == 0; ++i) {
    const std::string name = "run" + std::to_string(i);
    const int64_t moment = 1 + i * (total - 1) / kills;
    int64_t changes = 0;
    const int status = sweep.train(name, moment, changes, committed);
    killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 1 : 0;
    in_a_save += has_leftovers(sweep.run(name)) ? 1 : 0;
    const std::string loss = lost(sweep.run(name), committed);
    const int64_t before = committed;
    const int again = sweep.train(name, 0, changes, committed);
    const std::string log = read_bytes(work / "log");
    resumed += log.find("resumed from") != std::string::npos ? 1 : 0;
    const std::string differs =
        again == 0 ? difference(sweep.run(name) / step_name(kSteps), want) : "it failed";
    // A run that saves removes what the killed one left; one that had nothing to do saves nothing.
    const bool cleaned = committed == 0 || !has_leftovers(sweep.run(name));
    const bool good = loss.empty() && differs.empty() && cleaned;
    if (!good) {
      ++failures;
      std::printf(
          "not ok - killed at change %lld of %lld (step %lld committed): %s; resumed: %s%s\n%s\n",
          static_cast<long long>(moment), static_cast<long long>(total),
          static_cast<long long>(before), loss.c_str(), differs.c_str(),
          cleaned ? "" : "; leftovers stay", log.c_str());
    }
    fs::remove_all(sweep.run(name).parent_path());
  }
  std::printf("# %lld changes a run; %lld of %lld starts killed, %lld inside a save, %lld resumed "
              "from a checkpoint\n",
              static_cast<long long>(total), static_cast<long long>(killed),
              static_cast<long long>(kills), static_cast<long long>(in_a_save),
              static_cast<long long>(resumed));
  // Under load the program gets ahead of the reader, and some starts end before they are killed.
  CHECK(killed >= kills / 4);
  CHECK(in_a_save >= 1);
  CHECK(resumed >= kills / 4);
  std::error_code ignored;
  fs::remove_all(work, ignored);
  std::printf("# %d failures\n", failures);
  return failures != 0;
}
