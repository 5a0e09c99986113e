#pragma once
// All that the fake plugin remembers: settings, calls, objects that live, mistakes of the caller.

#include "pjrt/abi/table.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace fake {

namespace abi = dllm::pjrt::abi;

struct Settings {
  int64_t devices = 1;
  int64_t major = 0, minor = 116;
  int64_t slots = 0;           // of the table; 0: as many as that minor had, -1: there is no table
  int64_t memory_limit = 0;    // of each device; 0: none
  int64_t compile_limit = 0;   // arguments + outputs + temporaries of a program; 0: none
  int64_t temporary_bytes = 0; // every program says so
  int64_t run_ms = 0;          // a run takes that long; runs of a device follow each other
  int64_t transfer_ms = 0;     // copies from and to the host happen that late
  int64_t donates = 1;         // 0: tf.aliasing_output is ignored
  int64_t joins = 1;           // 0: a client has no options for processes, and no store
  int64_t store_timeout_ms = 60000; // of a wait for a key
  int64_t store_bytes = 0;          // of what each process puts besides
  int64_t meets = 0;                // 1: processes meet in the store at every run
  int64_t consumes_on_failure = 0;  // 1: a run that is made to fail has consumed its donated inputs
};

struct Failure {
  std::string call;
  int64_t nth;
  int32_t code;
  std::string message;
  int64_t seen = 0;
};

class State {
public:
  ~State();
  static State& get(); // lives as long as the process

  // Notes a call; the error that it is to fail with, or null.
  abi::Error* enter(const std::string& call);
  void violation(const std::string& text);

  // Objects by address. check and remove note a violation for one that does not live.
  void add(const char* kind, const void* object);
  bool check(const char* kind, const void* object, const char* call);
  bool remove(const char* kind, const void* object, const char* call);
  int64_t count_live(const std::string& kind);

  // Runs `work` on another thread after that many milliseconds; at once and here when there are
  // none.
  void later(int64_t milliseconds, std::function<void()> work);
  void join();

  std::mutex mutex; // guards what follows
  Settings settings;
  std::set<std::string> removed_slots;
  std::vector<Failure> failures;
  Failure poison{"", -1, 0, ""};
  std::string record;
  std::map<std::string, int64_t> counts;
  std::string violations;
  std::map<const void*, std::string> live;
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<abi::Client>> graves; // of destroyed clients, until reset
  std::string crash_at, hang_at;                    // calls that end the process, or never return
  std::string platform = "fake";
  int64_t most_in_flight = 0;
  int64_t bytes_in_use = 0; // of all devices

private:
  State();
  void read_environment();
};

// Sets one of Settings by its name; false when there is none of that name.
bool set_by_name(Settings& settings, const std::string& key, int64_t value);

} // namespace fake
