#include "control.h"

#include "objects.h"
#include "state.h"

namespace fake {
namespace {

void reset() {
  State& state = State::get();
  state.join();
  const std::lock_guard lock(state.mutex);
  state.settings = {};
  state.platform = "fake";
  state.removed_slots.clear();
  state.failures.clear();
  state.poison = {"", -1, 0, "", 0};
  state.record.clear();
  state.counts.clear();
  state.violations.clear();
  state.most_in_flight = 0;
  state.graves.clear();
}

void fail_at(const char* call, int64_t nth, int32_t code, const char* message) {
  const std::lock_guard lock(State::get().mutex);
  State::get().failures.push_back({call, nth, code, message, 0});
}

void poison_run(int64_t nth, int32_t code, const char* message) {
  const std::lock_guard lock(State::get().mutex);
  State::get().poison = {"", nth, code, message, 0};
}

void set(const char* key, int64_t value) {
  bool known = false;
  {
    const std::lock_guard lock(State::get().mutex);
    known = set_by_name(State::get().settings, key, value);
  }
  if (!known) State::get().violation(std::string("the test set ") + key + ", which is no setting");
}

void set_platform(const char* name) {
  const std::lock_guard lock(State::get().mutex);
  State::get().platform = name;
}

void remove_slot(const char* call) {
  const std::lock_guard lock(State::get().mutex);
  State::get().removed_slots.insert(call);
}

const char* calls() {
  static std::string copy;
  const std::lock_guard lock(State::get().mutex);
  copy = State::get().record;
  return copy.c_str();
}

int64_t count(const char* call) {
  const std::lock_guard lock(State::get().mutex);
  const auto found = State::get().counts.find(call);
  return found == State::get().counts.end() ? 0 : found->second;
}

const char* violations() {
  static std::string copy;
  const std::lock_guard lock(State::get().mutex);
  copy = State::get().violations;
  return copy.c_str();
}

int64_t live(const char* kind) {
  State::get().join();
  return State::get().count_live(kind);
}

const char* live_list() {
  static std::string text;
  State::get().join();
  std::map<std::string, int64_t> kinds;
  const std::lock_guard lock(State::get().mutex);
  for (const auto& [object, kind] : State::get().live) ++kinds[kind];
  text.clear();
  for (const auto& [kind, count] : kinds)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + kind;
  return text.c_str();
}

int64_t bytes_in_use() {
  State::get().join();
  const std::lock_guard lock(State::get().mutex);
  return State::get().bytes_in_use;
}

int64_t most_in_flight() {
  const std::lock_guard lock(State::get().mutex);
  return State::get().most_in_flight;
}

} // namespace
} // namespace fake

const fake::Control* FakePluginControl() {
  static const fake::Control control = {fake::reset,         fake::fail_at,      fake::poison_run,
                                        fake::set,           fake::set_platform, fake::remove_slot,
                                        fake::calls,         fake::count,        fake::violations,
                                        fake::live,          fake::live_list,    fake::bytes_in_use,
                                        fake::most_in_flight};
  return &control;
}
