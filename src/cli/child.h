#pragma once
// A separate process for what may crash, hang or print anything: a plugin, a compiler. Its output
// comes back through pipes; what it leaves running is ended with it.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace dllm::cli {

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

} // namespace dllm::cli
