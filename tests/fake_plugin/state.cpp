#include "state.h"

#include "objects.h"

#include <chrono>
#include <cstdlib>
#include <sstream>

namespace fake {

State& State::get() {
  static State* state = new State;
  return *state;
}

State::~State() = default; // here objects are known

State::State() {
  read_environment();
}

// DLLM_FAKE_PLUGIN="devices=8;minor=81;crash=PJRT_Client_Create": for programs that load the plugin
// by themselves. crash, hang and fail name a call; fail ends it with code 13.
void State::read_environment() {
  const char* text = std::getenv("DLLM_FAKE_PLUGIN");
  std::istringstream parts(text != nullptr ? text : "");
  for (std::string part; std::getline(parts, part, ';');) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos) continue;
    const std::string key = part.substr(0, equals), value = part.substr(equals + 1);
    if (key == "crash") crash_at = value;
    if (key == "hang") hang_at = value;
    if (key == "platform") platform = value;
    if (key == "null") removed_slots.insert(value);
    if (key == "fail") failures.push_back({value, 0, 13, "set to fail by DLLM_FAKE_PLUGIN"});
    set_by_name(settings, key, std::atoll(value.c_str()));
  }
}

bool set_by_name(Settings& s, const std::string& key, int64_t value) {
  const std::map<std::string, int64_t*> all = {
      {"devices", &s.devices},
      {"major", &s.major},
      {"minor", &s.minor},
      {"slots", &s.slots},
      {"memory_limit", &s.memory_limit},
      {"compile_limit", &s.compile_limit},
      {"temporary_bytes", &s.temporary_bytes},
      {"run_ms", &s.run_ms},
      {"transfer_ms", &s.transfer_ms},
      {"donates", &s.donates},
      {"joins", &s.joins},
      {"store_timeout_ms", &s.store_timeout_ms},
      {"store_bytes", &s.store_bytes},
      {"meets", &s.meets},
      {"consumes_on_failure", &s.consumes_on_failure},
  };
  const auto found = all.find(key);
  if (found == all.end()) return false;
  *found->second = value;
  return true;
}

abi::Error* State::enter(const std::string& call) {
  int32_t code = 0;
  std::string message;
  {
    const std::lock_guard lock(mutex);
    record += call + "\n";
    ++counts[call];
    if (call == crash_at) std::abort();
    for (Failure& failure : failures) {
      if (failure.call != call && failure.call != "*") continue;
      ++failure.seen;
      if (code == 0 && (failure.nth == 0 || failure.nth == failure.seen)) {
        code = failure.code;
        message = failure.message;
      }
    }
  }
  while (call == hang_at) std::this_thread::sleep_for(std::chrono::hours(1));
  return code != 0 ? make_error(code, message) : nullptr;
}

void State::violation(const std::string& text) {
  const std::lock_guard lock(mutex);
  violations += text + "\n";
}

void State::add(const char* kind, const void* object) {
  const std::lock_guard lock(mutex);
  live[object] = kind;
}

bool State::check(const char* kind, const void* object, const char* call) {
  {
    const std::lock_guard lock(mutex);
    const auto found = live.find(object);
    if (found != live.end() && found->second == kind) return true;
  }
  violation(std::string(call) + ": there is no such " + kind);
  return false;
}

bool State::remove(const char* kind, const void* object, const char* call) {
  if (!check(kind, object, call)) return false;
  const std::lock_guard lock(mutex);
  live.erase(object);
  return true;
}

int64_t State::count_live(const std::string& kind) {
  const std::lock_guard lock(mutex);
  int64_t count = 0;
  for (const auto& [object, its_kind] : live) count += kind.empty() || its_kind == kind;
  return count;
}

void State::later(int64_t milliseconds, std::function<void()> work) {
  if (milliseconds <= 0) return work();
  const std::lock_guard lock(mutex);
  threads.emplace_back([milliseconds, work = std::move(work)] {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    work();
  });
}

void State::join() {
  for (;;) {
    std::vector<std::thread> some;
    {
      const std::lock_guard lock(mutex);
      some.swap(threads);
    }
    if (some.empty()) return;
    for (std::thread& thread : some) thread.join();
  }
}

} // namespace fake
