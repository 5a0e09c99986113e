#pragma once
// Processes: a child for what may crash, signals, standard output, a line that shows progress, and the lock of a run
// folder.

#include "dllm/task.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace dllm::cli {

// ---- a child (child.cpp) ----
// A separate process for what may crash, hang or print anything: a plugin, a compiler. Its output comes back through
// pipes; the processes that it started are ended with it.

struct ChildRequest {
  std::string program = "/proc/self/exe"; // this program
  std::vector<std::string> arguments;     // without the program's own name
  std::string input;                      // what it finds on its standard input
  std::vector<std::string>
      environment;       // NAME=VALUE added to ours; a name that is set already keeps its value
  double time_limit = 0; // seconds, 0: none
  size_t most_output = size_t{256} << 20; // bytes of standard output; one that writes more is ended
  size_t errors_kept = 4096;              // bytes: the end of standard error
  // Called about ten times a second with the seconds passed; false ends the child.
  std::function<bool(double)> waiting = nullptr;
};

struct ChildResult {
  enum class How { exited, crashed, timed_out, flooded, stopped } how = How::exited;
  int code = 0;           // exited: exit status; crashed: the signal
  double seconds = 0;     // it ran
  double cpu_seconds = 0; // it and what it started used, of all cores
  std::string output;
  std::string errors; // the last errors_kept bytes of standard error

  bool ok() const { return how == How::exited && code == 0; }
  // "was ended by signal 11 (Segmentation fault) after 0.2 s"; "" when ok().
  std::string story() const;
  // The last lines of standard error that are not empty, at most `count`.
  std::vector<std::string> last_lines(size_t count) const;
};

// Fails with a Failure when the process cannot be started.
ChildResult run_child(const ChildRequest& request);

// In the child: die when the process that started this one does.
void end_with_parent();

// ---- this process (process.cpp) ----

// While one exists, the first Ctrl-C, SIGTERM or SIGHUP requests the running call to finish its step;
// another one, a second or more later, ends the process.
class Interrupt {
public:
  explicit Interrupt(dllm_task* task); // not NULL, outlives this object
  ~Interrupt();                        // back to what was before
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

private:
  static constexpr int kCount = 3; // signals
  dllm_task* before_;
  void (*handlers_before_[kCount])(int);
};

// Exit code of a program that a signal ended: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
int interrupted_code();

// A line on standard error that shows how far a command is: on a terminal only, gone when it is destroyed.
class StatusLine {
public:
  explicit StatusLine(bool quiet = false); // quiet: shows nothing
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  void show(const std::string& text); // replaces what stands there
  void clear();
  // While a call works on `task`: ten times a second what `text` makes of its progress (done, of how much; 0: unknown),
  // by a thread, until stop() or the next show. The task outlives this object.
  void follow(dllm_task* task, std::function<std::string(int64_t, int64_t)> text);
  void stop();

private:
  const bool shown_;
  std::atomic<bool> following_ = false;
  std::thread thread_;
};

// Standard output is a result: when it cannot be written, the command fails.

// From here on a closed reader ends writing, not the program: a training run still saves its state.
void watch_standard_output();
// Writes what is left. code, or kFailed where something could not be written; quietly when the reader went away.
int finish_standard_output(int code);

// Holds folder/LOCK, with this process's number in it, until destroyed: one training at a time in a run's folder. The system
// releases it when the process ends in any way, so that a killed run blocks nothing.
class RunLock {
public:
  // Makes the folder when it is not there. Throws Failure when another process holds the lock, naming it.
  explicit RunLock(const std::string& folder);
  ~RunLock(); // removes a folder that was created here and is still empty
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

private:
  bool take(); // false: the file was removed meanwhile

  std::string folder_, path_;
  bool made_folder_ = false;
  int fd_ = -1;
};

// ---- a job of several processes (launched.cpp) ----
// mpirun and srun start this program once for every rank. The first process prints and writes files for all.

int64_t job_rank(); // 0 where there is one process
int64_t job_size();
// From here on a process that is not the first prints nothing, on both outputs.
void quiet_unless_first();
// The exception: a failure of this rank alone.
void print_failure_of_rank(const std::string& text);

} // namespace dllm::cli
