#include "harness.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

namespace dllm::hostile {
namespace {

// A mutant takes milliseconds. One that takes this long has hung, also under a sanitizer on a busy
// machine.
constexpr unsigned kHangSeconds = 100;

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_whole(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string temporary_folder() {
  const char* set = std::getenv("TMPDIR");
  return set != nullptr ? set : "/tmp";
}

extern "C" void on_alarm(int) {
  constexpr char kText[] = "\nnot ok - a mutant does not come to an end; its file is kept\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  ::_exit(3);
}

} // namespace

Harness::Harness(std::string reader, int count, char** arguments,
                 std::initializer_list<int32_t> allowed)
    : reader_(std::move(reader)), file_(count > 1 ? arguments[1] : ""),
      current_(temporary_folder() + "/hostile_" + reader_ + ".mutant"), allowed_(allowed) {
  std::signal(SIGALRM, on_alarm);
  std::signal(SIGXFSZ, SIG_IGN);
}

Harness::~Harness() {
  if (failures_ == 0) std::remove(current_.c_str());
}

Outcome Harness::run(const std::string& what, const std::string& bytes, const Feed& feed) {
  write_whole(current_, bytes); // stays behind when the reader ends the process
  ::alarm(kHangSeconds);
  const Outcome outcome = feed(bytes);
  ::alarm(0);
  if (const std::string wrong = judge(outcome, bytes.size()); !wrong.empty()) {
    const std::string kept = current_ + "." + std::to_string(++failures_);
    write_whole(kept, bytes);
    std::printf("not ok - %s: %s (status %d, \"%s\"; %s)\n", what.c_str(), wrong.c_str(),
                outcome.status, outcome.message.c_str(), kept.c_str());
  }
  return outcome;
}

std::string Harness::judge(const Outcome& outcome, size_t bytes) const {
  if (outcome.status == 0) return {};
  if (!allowed_.contains(outcome.status)) return "the status is not among those documented";
  if (outcome.message.empty()) return "the refusal has no message";
  if (outcome.message.find('\n') != std::string::npos) return "the message has several lines";
  // It may quote the file once.
  if (outcome.message.size() > 2000 + bytes) return "the message is longer than the file";
  return {};
}

void Harness::seed(const std::string& name, const std::string& bytes, const Feed& feed) {
  const Outcome outcome = run("seed " + name, bytes, feed);
  check(outcome.status == 0,
        "seed " + name + " is accepted" + (outcome.status == 0 ? "" : ": " + outcome.message));
}

void Harness::mutants(const std::string& what, const Make& make, const Feed& feed) {
  if (!file_.empty()) {
    const Outcome outcome = run(file_, read_whole(file_), feed);
    std::printf("# %s: status %d %s\n", file_.c_str(), outcome.status, outcome.message.c_str());
    return;
  }
  std::map<int32_t, int> statuses;
  for (uint64_t number = 0; number < kMutants; ++number)
    ++statuses[run(what + " mutant " + std::to_string(number), make(number), feed).status];
  std::ostringstream line;
  for (const auto& [status, times] : statuses) line << " " << status << ":" << times;
  std::printf("# %s %s: %d mutants, by status%s\n", reader_.c_str(), what.c_str(),
              static_cast<int>(kMutants), line.str().c_str());
  // Else the mutator does no damage, or the reader looks at nothing.
  check(statuses[0] < static_cast<int>(kMutants) * 9 / 10,
        what + ": at least a tenth of the mutants is refused");
}

void Harness::known(const std::string& name, const std::string& bytes, int32_t status,
                    const std::string& part, const Feed& feed) {
  const Outcome outcome = run(name, bytes, feed);
  const bool good = outcome.status == status && outcome.message.find(part) != std::string::npos;
  check(good,
        name + (good ? ""
                     : ": status " + std::to_string(outcome.status) + " \"" + outcome.message +
                           "\", expected " + std::to_string(status) + " and \"" + part + "\""));
}

void Harness::check(bool good, const std::string& what) {
  if (!good) ++failures_;
  std::printf("%s - %s\n", good ? "ok" : "not ok", what.c_str());
}

int Harness::finish() {
  std::printf("# %d failures\n", failures_);
  return failures_ != 0;
}

} // namespace dllm::hostile
