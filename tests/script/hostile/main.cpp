// Runs scripts that mean harm, each in a fresh runner at level safe with small limits, and checks
// how each ends.
//
//   hostile FILE.lua...   or   hostile --only NAME FILE.lua...
//
// A file holds cases. Each begins with a line  --- NAME | OUTCOME [| key=value ...]  and goes on to
// the next:
//   ok JSON            the script returns, and this is the JSON array of what
//   error CODE [TEXT]  it fails with this status; the message contains the text
//   cancel             a second thread cancels its task while it runs: DLLM_CANCELLED
//   steps              it ends at the step limit
//   any                it ends, with whatever outcome
// Keys: level, memory, steps. @IN@ in a script is a folder that level files may reach, @OUT@ one it
// may not.

#include "dllm/dllm.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr auto kBeforeCancel = std::chrono::milliseconds(40);
constexpr auto kWatchdog =
    std::chrono::seconds(120); // against hanging alone; no check looks at the time

struct Case {
  std::string name, outcome, code;
  std::map<std::string, std::string> keys;
};

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

Case read_header(const std::string& line) {
  Case made;
  std::vector<std::string> parts;
  std::stringstream stream(line.substr(4));
  for (std::string part; std::getline(stream, part, '|');) parts.push_back(trimmed(part));
  made.name = parts.at(0);
  made.outcome = parts.at(1);
  std::stringstream keys(parts.size() > 2 ? parts[2] : "");
  for (std::string word; keys >> word;)
    made.keys[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  return made;
}

std::vector<Case> read_cases(const std::string& path) {
  std::ifstream file(path);
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("--- ", 0) == 0)
      cases.push_back(read_header(line));
    else if (!cases.empty())
      cases.back().code += line + "\n";
  }
  return cases;
}

// ---- ending a run from another thread ----

class Canceller {
public:
  Canceller(dllm_task* task, bool cancels, const std::string& name)
      : thread_([this, task, cancels, name] {
          const auto start = Clock::now();
          while (!done_) {
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
            const auto now = Clock::now();
            if (cancels && now - start > kBeforeCancel && cancelled_at_ == 0) {
              cancelled_at_ = now.time_since_epoch().count();
              dllm_task_cancel(task);
            }
            if (now - start > kWatchdog) {
              std::printf("not ok - %s hangs\n", name.c_str());
              std::fflush(stdout);
              std::_Exit(1);
            }
          }
        }) {}
  ~Canceller() { stop(); }
  // Milliseconds from the cancel to the end of the call.
  double stop() {
    const auto now = Clock::now().time_since_epoch().count();
    done_ = true;
    if (thread_.joinable()) thread_.join();
    return cancelled_at_ == 0 ? 0 : static_cast<double>(now - cancelled_at_) / 1e6;
  }

private:
  std::atomic<bool> done_{false};
  std::atomic<Clock::rep> cancelled_at_{0};
  std::thread thread_;
};

// ---- one case ----

struct Folders {
  fs::path work, in, out;
};

struct Ended {
  dllm_status status = DLLM_OK;
  std::string message, json;
  double latency = 0;
};

std::string key_of(const Case& one, const std::string& key, const std::string& fallback) {
  const auto found = one.keys.find(key);
  return found == one.keys.end() ? fallback : found->second;
}

std::string with_folders(std::string code, const Folders& folders) {
  for (const auto& [mark, path] :
       {std::pair<std::string, fs::path>{"@IN@", folders.in}, {"@OUT@", folders.out}}) {
    for (size_t at = 0; (at = code.find(mark, at)) != std::string::npos;)
      code.replace(at, mark.size(), path.string());
  }
  return code;
}

Ended run(const Case& one, const Folders& folders) {
  const bool cancels = one.outcome == "cancel";
  const std::string level = key_of(one, "level", "safe");
  std::string json = "{\"sandbox\": \"" + level +
                     "\", \"memory_limit\": " + key_of(one, "memory", "67108864") +
                     ", \"step_limit\": " + key_of(one, "steps", cancels ? "0" : "5000000");
  if (level == "files") json += ", \"roots\": [\"" + folders.in.string() + "\"]";
  json += "}";
  dllm_error* err = dllm_error_new();
  dllm_options* options = nullptr;
  dllm_lua* lua = nullptr;
  dllm_options_new("lua", &options, err);
  if (dllm_options_set_json(options, json.data(), static_cast<int64_t>(json.size()), err) !=
          DLLM_OK ||
      dllm_lua_new(options, &lua, err) != DLLM_OK) {
    std::printf("no runner: %s\n", dllm_error_message(err));
    std::exit(1);
  }
  dllm_options_release(options);
  dllm_task* task = dllm_task_new();
  dllm_buffer* out = dllm_buffer_new();
  const std::string code = with_folders(one.code, folders);
  Ended ended;
  {
    Canceller canceller(task, cancels, one.name);
    ended.status = dllm_lua_run_text(lua, one.name.c_str(), code.data(),
                                     static_cast<int64_t>(code.size()), task, out, err);
    ended.latency = canceller.stop();
  }
  if (ended.status != DLLM_OK) ended.message = dllm_error_message(err);
  ended.json.assign(static_cast<const char*>(dllm_buffer_data(out)),
                    static_cast<size_t>(dllm_buffer_size(out)));
  {
    Canceller watchdog(task, false, one.name + " (release)");
    dllm_lua_release(lua);
  }
  dllm_buffer_release(out);
  dllm_task_release(task);
  dllm_error_release(err);
  return ended;
}

// Empty when the end is what the case wants.
std::string complaint(const Case& one, const Ended& ended) {
  const std::string found =
      std::string(dllm_status_name(ended.status)) + " " + ended.message + ended.json;
  if (one.outcome == "any") return "";
  if (one.outcome == "cancel") return ended.status == DLLM_CANCELLED ? "" : found;
  if (one.outcome == "steps") {
    return ended.status == DLLM_RESOURCE_EXHAUSTED &&
                   ended.message.find("steps") != std::string::npos
               ? ""
               : found;
  }
  std::stringstream words(one.outcome);
  std::string kind, wanted, text;
  words >> kind;
  if (kind == "ok") {
    std::getline(words, text);
    return ended.status == DLLM_OK && ended.json == trimmed(text) ? "" : found;
  }
  words >> wanted;
  std::getline(words, text);
  const bool same = wanted == dllm_status_name(ended.status) &&
                    ended.message.find(trimmed(text)) != std::string::npos;
  return kind == "error" && same ? "" : found;
}

// ---- what a host hands over ----

int check(bool holds, const char* what) {
  std::printf("%s - host: %s\n", holds ? "ok" : "not ok", what);
  return holds ? 0 : 1;
}

// JSON of a host's clients, and deadlines.
int check_host() {
  dllm_error* err = dllm_error_new();
  dllm_lua* lua = nullptr;
  dllm_lua_new(nullptr, &lua, err);
  const std::string deep(200000, '['), mine = "function id(x) return x end",
                                       endless = "while true do end";
  const auto text = [&](const std::string& code, dllm_task* task) {
    return dllm_lua_run_text(lua, "text", code.data(), static_cast<int64_t>(code.size()), task,
                             nullptr, err);
  };
  const auto size = static_cast<int64_t>(deep.size());
  int failed = check(text(mine, nullptr) == DLLM_OK, "a function is there");
  failed += check(dllm_lua_set_json(lua, "x", deep.data(), size, err) == DLLM_INVALID_ARGUMENT,
                  "deep JSON as a global");
  failed += check(dllm_lua_call(lua, "id", deep.data(), size, nullptr, nullptr, err) ==
                      DLLM_INVALID_ARGUMENT,
                  "deep JSON as arguments");
  failed += check(dllm_lua_call(lua, "id", "[[1]]", 5, nullptr, nullptr, err) == DLLM_OK,
                  "JSON as arguments");
  dllm_task* task = dllm_task_new();
  dllm_task_set_deadline(task, 30);
  failed += check(text(endless, task) == DLLM_DEADLINE_EXCEEDED, "a deadline has its own status");
  failed += check(text(mine, nullptr) == DLLM_OK, "the runner goes on after it");
  dllm_task_release(task);
  dllm_lua_release(lua);
  dllm_error_release(err);
  return failed;
}

Folders make_folders() {
  Folders folders;
  folders.work = fs::temp_directory_path() / ("dllm_hostile_" + std::to_string(::getpid()));
  fs::remove_all(folders.work);
  folders.in = folders.work / "in";
  folders.out = folders.work / "out";
  fs::create_directories(folders.in / "sub");
  fs::create_directories(folders.in / "linked");
  fs::create_directories(folders.out / "secret");
  std::ofstream(folders.in / "rows.txt") << "one fish\n\ntwo fish\n";
  std::ofstream(folders.out / "secret.txt") << "secret\n";
  fs::create_symlink(folders.out / "secret.txt", folders.in / "link.txt");
  fs::create_symlink(folders.out, folders.in / "linked" / "folder");
  // Checkpoints whose base is stored elsewhere.
  const std::pair<const char*, std::string> bases[] = {
      {"run_out", (folders.out / "secret").string()},
      {"run_store", "s3://bucket/model"},
      {"run_in", (folders.in / "sub").string()}};
  for (const auto& [name, address] : bases) {
    fs::create_directories(folders.in / name);
    std::ofstream(folders.in / name / "trainer.json")
        << R"({"parts": [{"name": "base", "kind": "network", "stored": "reference", "digest": "0",)"
        << R"( "format_of": {}, "config": {}, "address": ")" << address << "\"}]}";
  }
  fs::create_symlink(folders.in / "nothing", folders.in / "dangling");
  return folders;
}

int64_t files_outside(const Folders& folders) {
  int64_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folders.out)) count += entry.exists();
  for (const auto& entry : fs::directory_iterator(fs::current_path())) count += entry.exists();
  return count;
}

} // namespace

int main(int argc, char** argv) {
  std::string only;
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc)
      only = argv[++i];
    else
      files.push_back(fs::absolute(argv[i]));
  }
  const Folders folders = make_folders();
  fs::create_directories(folders.work / "current");
  fs::current_path(folders.work / "current");
  const int64_t before = files_outside(folders);
  int count = 0, failed = only.empty() ? check_host() : 0;
  double slowest = 0;
  for (const std::string& file : files) {
    for (const Case& one : read_cases(file)) {
      if (!only.empty() && one.name.find(only) == std::string::npos) continue;
      const Ended ended = run(one, folders);
      std::string wrong = complaint(one, ended);
      if (wrong.empty() && files_outside(folders) != before)
        wrong = "it changed files outside of its roots";
      slowest = std::max(slowest, ended.latency);
      ++count;
      failed += !wrong.empty();
      std::printf("%s %d - %s: %s", wrong.empty() ? "ok" : "not ok", count, one.name.c_str(),
                  one.outcome.c_str());
      if (one.outcome == "cancel") std::printf(" (%.0f ms)", ended.latency);
      std::printf("%s%s\n", wrong.empty() ? "" : "\n  ended with: ", wrong.c_str());
      std::fflush(stdout);
    }
  }
  fs::current_path("/");
  fs::remove_all(folders.work);
  std::printf("1..%d\n# %d failed; slowest end after a cancel %.0f ms\n", count, failed, slowest);
  return failed == 0 && count > 0 ? 0 : 1;
}
