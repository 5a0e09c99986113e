#include "eval.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace dllm::cli {
namespace {

// Returns a random text that the program prints after its tests. A program that ends early, or
// skips the tests with exit(0), does not print it.
std::string new_mark() {
  std::array<uint32_t, 4> words{};
  if (::getentropy(words.data(), sizeof words) != 0) {
    throw Failure(DLLM_UNAVAILABLE,
                  std::string("the system gives no random bytes: ") + std::strerror(errno));
  }
  std::string mark = "passed ";
  for (const uint32_t word : words) mark += std::to_string(word);
  return mark;
}

// A completion of a function ends before the next top-level statement (Chen et al. 2021, 3.1).
const std::vector<std::string> kStops = {"\nclass ", "\ndef ", "\n#", "\nif ", "\nprint("};

std::string lines_of(const EvalJson& list) {
  std::string text;
  for (const EvalJson& line : list)
    text += (line.is_string() ? line.get<std::string>() : "") + "\n";
  return text;
}

ProgramTask mbpp_task(const EvalJson& row, const std::string& path, size_t index) {
  ProgramTask task;
  const std::string tests = lines_of(row["test_list"]);
  task.prompt = "\"\"\"\n" + text_of(row, row.contains("text") ? "text" : "prompt", path, index) +
                "\n" + tests + "\"\"\"\n";
  const EvalJson setup = row.value("test_setup_code", EvalJson(""));
  task.before = lines_of(row.value("test_imports", EvalJson::array()));
  task.after = "\n" + (setup.is_string() ? setup.get<std::string>() : "") + "\n" + tests +
               lines_of(row.value("challenge_test_list", EvalJson::array()));
  task.stops = {"\n[DONE]", "\nassert ", "\n\"\"\"", "\nif ", "\nprint("};
  return task;
}

} // namespace

ProgramTask program_task(const EvalJson& row, const std::string& path, size_t index) {
  ProgramTask task;
  if (row.contains("test_list") && row["test_list"].is_array()) {
    task = mbpp_task(row, path, index);
  } else {
    task.prompt = task.before = text_of(row, "prompt", path, index);
    if (row.contains("suffix")) task.suffix = text_of(row, "suffix", path, index);
    if (task.suffix.empty()) task.stops = kStops;
    task.after = task.suffix + "\n" + text_of(row, "test", path, index) + "\ncheck(" +
                 text_of(row, "entry_point", path, index) + ")\n";
  }
  task.id = id_of(row, index);
  return task;
}

std::string trimmed(const ProgramTask& task, const std::string& completion) {
  std::string text = completion;
  if (const size_t fence = text.find("```"); fence != std::string::npos) {
    const size_t begin = text.find('\n', fence);
    text = begin == std::string::npos ? text.substr(0, fence)
                                      : text.substr(begin + 1, text.find("```", begin) - begin - 1);
  }
  size_t end = text.size();
  for (const std::string& stop : task.stops) end = std::min(end, text.find(stop));
  return text.substr(0, end);
}

EvalJson run_tests(const ProgramRunner& runner, const ProgramTask& task,
                   const std::string& completion, dllm_task* cancel) {
  const std::string mark = new_mark();
  const ChildResult result =
      runner.run(task.before + completion + task.after + "\nprint('\\n" + mark + "')\n", cancel);
  if (result.how == ChildResult::How::stopped) throw Failure(DLLM_CANCELLED, "interrupted");
  const bool passed = result.ok() && result.output.ends_with(mark + "\n");
  if (passed) return {{"passed", true}, {"result", "passed"}};
  const auto last = result.last_lines(1);
  std::string why = result.ok() ? "ended before its tests" : result.story();
  if (result.how == ChildResult::How::exited && !last.empty()) why = last[0];
  return {{"passed", false}, {"result", why}};
}

} // namespace dllm::cli
