#pragma once
// Programs that have not been read by anyone, in a child with limits: what dllm eval makes of generated code.

#include "process.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::cli {

// What a program may use. One process; threads share its memory.
struct ProgramLimits {
  double seconds = 10;       // on the clock and of the processor, each
  int64_t memory_mib = 1024; // address space
  int64_t output_kib = 256;  // standard output; one that writes more is ended
  int64_t files_mib = 16;    // the largest file
};

// Runs programs of one interpreter. What holds, without rights of any kind (Linux 5.13 and later):
//   files      it reads the interpreter, /usr, /lib and its own folder, and writes to its own folder alone, which is removed
//              behind it (Landlock). Names, sizes and times of other files can be looked at.
//   network    no sockets (seccomp), and where the system allows it a network of its own that is empty (unshare)
//   processes  it starts none, signals none and traces none (seccomp)
//   limits     processor time, memory, size of a file, open files (setrlimit); time and output are cut by this program
// Its environment is empty but for PATH, HOME, LANG.
class ProgramRunner {
public:
  // python: a name on PATH or a path. Runs an empty program: fails with a Failure when the interpreter or one of the
  // above is not there.
  ProgramRunner(const std::string& python, const ProgramLimits& limits);

  // How it ended; output holds standard output.
  ChildResult run(const std::string& program, dllm_task* task) const;

private:
  std::string interpreter_;
  std::vector<std::string> readable_; // folders
  ProgramLimits limits_;
};

// The hidden word of main() that takes the limits on and becomes the interpreter. Returns only on failure.
inline constexpr const char* kLimitedWord = "--limited-program";
int become_limited(int argc, char** argv);

} // namespace dllm::cli
