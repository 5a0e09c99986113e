#pragma once
// A ProgramRunner runs untrusted programs in a child process with limits. dllm eval runs generated
// code with it.

#include "process.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::cli {

// Limits of one program, which is one process with any number of threads.
struct ProgramLimits {
  double seconds = 10;       // elapsed time, and processor time
  int64_t memory_mib = 1024; // MiB of address space
  int64_t output_kib = 256;  // KiB of standard output; a program that writes more is ended
  int64_t files_mib = 16;    // MiB of one file
};

// Runs programs of one interpreter. It needs Linux 5.13 or later, and no privileges:
//   files      The program reads the interpreter, /usr, /lib and its own folder. It writes only to
//              its own folder, which is removed after the run (Landlock). It can read names, sizes
//              and times of other files.
//   network    It has no sockets (seccomp), and where the system allows it an empty network
//              namespace (unshare).
//   processes  It cannot start, signal or trace processes (seccomp).
//   limits     setrlimit limits processor time, memory, file size and open files. This class
//              limits elapsed time and output.
// The environment holds only PATH, HOME and LANG.
class ProgramRunner {
public:
  // python: a name on PATH or a path. Runs an empty program, and fails with a Failure when the
  // interpreter or one of the protections above is not available.
  ProgramRunner(const std::string& python, const ProgramLimits& limits);

  // Runs a program and returns how it ended; output holds its standard output.
  ChildResult run(const std::string& program, dllm_task* task) const;

private:
  std::string interpreter_;
  std::vector<std::string> readable_; // folders
  ProgramLimits limits_;
};

// main() calls become_limited() for this hidden first argument.
inline constexpr const char* kLimitedWord = "--limited-program";
// Sets the limits for this process and replaces it by the interpreter. Returns only on failure.
int become_limited(int argc, char** argv);

} // namespace dllm::cli
