#pragma once
// This header declares processes: child processes, signals, standard output, a progress line,
// locks of folders and files, and jobs of several processes.

#include "dllm/task.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace dllm::cli {

// ---- child processes (child.cpp) ----
// A plugin or compiler runs in a child process, because it may crash, hang or print anything. Pipes
// return its output. Processes that the child started end with it.

struct ChildRequest {
  std::string program = "/proc/self/exe"; // default: this program
  std::vector<std::string> arguments;     // without the name of the program
  std::string input;                      // content of standard input
  // NAME=VALUE, added to the environment of this process. A name that is set there keeps its value.
  std::vector<std::string> environment;
  double time_limit = 0;                  // seconds; 0: no limit
  size_t most_output = size_t{256} << 20; // bytes of standard output; with more the child is ended
  size_t errors_kept = 4096;              // bytes kept from the end of standard error
  // Called about ten times a second with the seconds since the start; returning false ends the
  // child.
  std::function<bool(double)> waiting = nullptr;
};

struct ChildResult {
  enum class How { exited, crashed, timed_out, flooded, stopped } how = How::exited;
  int code = 0;           // exited: exit status; crashed: the signal
  double seconds = 0;     // elapsed time of the child
  double cpu_seconds = 0; // processor time of the child and its own children
  std::string output;
  std::string errors; // the last errors_kept bytes of standard error

  bool ok() const { return how == How::exited && code == 0; }
  // Returns "was ended by signal 11 (Segmentation fault) after 0.2 s", or "" when ok().
  std::string story() const;
  // Returns the last lines of standard error that are not empty, at most `count`.
  std::vector<std::string> last_lines(size_t count) const;
};

// Runs a child and waits for its end. Fails with a Failure when the child cannot be started.
ChildResult run_child(const ChildRequest& request);

// Makes this process end when the process that started it ends. A child calls it.
void end_with_parent();

// ---- this process (process.cpp) ----

// While an Interrupt exists, the first Ctrl-C, SIGTERM or SIGHUP cancels the task. A signal that
// follows a second or more later ends the process.
class Interrupt {
public:
  explicit Interrupt(dllm_task* task); // task is not null and outlives this object
  ~Interrupt();                        // restores the former task and signal handlers
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

private:
  static constexpr int kCount = 3; // signals
  dllm_task* before_;
  void (*handlers_before_[kCount])(int);
};

// Returns the exit code after the last signal: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP.
int interrupted_code();

// A line on standard error that shows the progress of a command, on a terminal only. The destructor
// removes the line.
class StatusLine {
public:
  explicit StatusLine(bool quiet = false); // quiet: never shows a line
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  void show(const std::string& text); // replaces the line
  void clear();
  // Starts a thread that shows text(done, total) of the task's progress ten times a second, until
  // stop() or the next show(). total 0 means unknown. The task outlives this object.
  void follow(dllm_task* task, std::function<std::string(int64_t, int64_t)> text);
  void stop();

private:
  const bool shown_;
  std::atomic<bool> following_ = false;
  std::thread thread_;
};

// A command fails when it cannot write standard output, because standard output is its result.

// Makes a closed pipe an error of the write. The pipe then does not end the program, so that a
// training run can still save its state.
void watch_standard_output();
// Flushes standard output and returns the exit code, which is kFailed when code is 0 and a write
// failed, else code. Prints an error for a failed write unless the reader closed the pipe.
int finish_standard_output(int code);

// A file that this process has locked and that holds its id. The system releases the lock when the
// process ends in any way; the destructor removes the file.
class LockFile {
public:
  // What a lock protects, for the error: "<name> is in use: process 12 <does>", and a hint.
  struct Use {
    std::string name, does, hint;
  };
  // Throws Failure naming the process that holds the lock.
  LockFile(std::string path, Use use);
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

private:
  bool take(); // returns false when the file was removed meanwhile

  std::string path_;
  Use use_;
  int fd_ = -1;
};

// Locks a run's folder with the file LOCK, so that only one training runs there.
class RunLock {
public:
  // Makes the folder when it does not exist. Throws Failure as LockFile does.
  explicit RunLock(const std::string& folder);
  ~RunLock(); // removes the folder if the constructor made it and it is empty

  // Returns true while a process holds the lock of this folder.
  static bool is_held(const std::string& folder);

  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

private:
  std::string folder_;
  bool made_folder_ = false;
  std::unique_ptr<const LockFile> file_;
};

// Locks a file that option out names with the file <path>.lock, so that one process writes it.
class OutputLock {
public:
  // path "": there is no file. A device or a pipe is not locked. Throws Failure as LockFile does.
  explicit OutputLock(const std::string& path);

private:
  std::unique_ptr<const LockFile> file_;
};

// ---- a job of several processes (launched.cpp) ----
// mpirun and srun start this program once for every rank. Only the first process prints and writes
// files.

int64_t job_rank(); // 0 for a single process
int64_t job_size(); // 1 for a single process
// Discards both outputs of this process from now on, unless it is the first.
void quiet_unless_first();
// Prints a failure that only this rank has, in spite of quiet_unless_first().
void print_failure_of_rank(const std::string& text);

} // namespace dllm::cli
