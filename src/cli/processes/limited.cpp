#include "limited.h"

#include "../command.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace dllm::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgramName = "program.py";

// A temporary folder for one program, which the destructor removes.
class OwnFolder {
public:
  OwnFolder() : path_((fs::temp_directory_path() / "dllm_eval_XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) {
      throw Failure(DLLM_PERMISSION_DENIED,
                    "cannot create the folder " + path_ + ": " + std::strerror(errno));
    }
    path_ = fs::canonical(path_).string();
  }
  ~OwnFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  const std::string& path() const { return path_; }

private:
  std::string path_;
};

// Returns the real path of the interpreter and the folders of its library, as Python reports them.
// "python3" may be a script that starts another interpreter.
std::vector<std::string> where_python_is(const std::string& python) {
  ChildRequest request;
  request.program = "/usr/bin/env";
  request.arguments = {python, "-I", "-c",
                       "import sys, os\nfor p in (os.path.realpath(sys.executable), sys.prefix, "
                       "sys.base_prefix, sys.exec_prefix): print(os.path.realpath(p))"};
  request.time_limit = 30;
  const ChildResult result = run_child(request);
  std::vector<std::string> lines;
  std::istringstream output(result.output);
  for (std::string line; std::getline(output, line);) lines.push_back(line);
  if (result.ok() && lines.size() == 4) return lines;
  const auto last = result.last_lines(1);
  throw Failure(DLLM_NOT_FOUND,
                "the interpreter " + python +
                    " does not run: " + (last.empty() ? result.story() : last[0]),
                "--python names another one; Python 3 runs the programs of HumanEval");
}

} // namespace

ProgramRunner::ProgramRunner(const std::string& python, const ProgramLimits& limits)
    : limits_(limits) {
  const std::vector<std::string> places = where_python_is(python);
  interpreter_ = places[0];
  readable_ = {"/usr", "/lib", "/lib64", "/bin"};
  for (size_t i = 1; i < places.size(); ++i) {
    if (places[i] != "/" &&
        std::find(readable_.begin(), readable_.end(), places[i]) == readable_.end())
      readable_.push_back(places[i]);
  }
  const ChildResult probe = run("print('ready')\n", nullptr);
  if (probe.ok() && probe.output == "ready\n") return;
  const auto last = probe.last_lines(1);
  throw Failure(DLLM_UNAVAILABLE,
                "programs cannot be limited here: " + (last.empty() ? probe.story() : last[0]),
                "a limit that is too small, or a system without Landlock or seccomp; programs do "
                "not run without limits");
}

ChildResult ProgramRunner::run(const std::string& program, dllm_task* task) const {
  const OwnFolder folder;
  std::ofstream file(folder.path() + "/" + kProgramName, std::ios::binary);
  file << program;
  file.close();
  if (!file) throw Failure(DLLM_RESOURCE_EXHAUSTED, "cannot write to " + folder.path());
  std::string readable;
  for (const std::string& place : readable_) readable += place + "\n";
  ChildRequest request;
  const auto seconds = static_cast<int64_t>(limits_.seconds + 0.999);
  request.arguments = {kLimitedWord,
                       folder.path(),
                       std::to_string(seconds),
                       std::to_string(limits_.memory_mib),
                       std::to_string(limits_.files_mib),
                       readable,
                       interpreter_,
                       kProgramName};
  request.time_limit = limits_.seconds;
  request.most_output = static_cast<size_t>(limits_.output_kib) << 10;
  request.waiting = [task](double) { return dllm_task_is_cancelled(task) == 0; };
  return run_child(request);
}

} // namespace dllm::cli
