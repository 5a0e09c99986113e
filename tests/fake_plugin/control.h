#pragma once
// What a test sets in the fake plugin and reads from it. The library exports one more symbol for
// that than a plugin does: FakePluginControl. A copy of the file under another name is another
// plugin with a state of its own.

#include <cstdint>

namespace fake {

struct Control {
  // Back to the settings of a fresh plugin; forgets calls and violations. Objects that live stay.
  void (*reset)();

  // From now on the nth call of this name ("PJRT_Client_Compile"; "*": any) fails, once; nth 0:
  // every call. A failing
  // *_Destroy destroys all the same. Failures add up.
  void (*fail_at)(const char* call, int64_t nth, int32_t code, const char* message);
  // The nth run from now on (0: every one) starts, and its outputs' events end with this error.
  void (*poison_run)(int64_t nth, int32_t code, const char* message);

  // key: devices major minor slots memory_limit compile_limit temporary_bytes run_ms transfer_ms
  // donates joins store_timeout_ms store_bytes meets consumes_on_failure (see state.h). The table
  // is made from minor and slots when GetPjrtApi is called.
  void (*set)(const char* key, int64_t value);
  void (*set_platform)(const char* name); // of the next client
  void (*remove_slot)(const char* call);  // its entry of the table is null

  // Names of all calls so far, a line each; valid until the next call of this function.
  const char* (*calls)();
  int64_t (*count)(const char* call);
  // Mistakes of the caller, a line each: wrong sizes, heads that are not zero, objects that do not
  // live.
  const char* (*violations)();
  // Objects that live: client device-buffers ... kind "" counts all. Waits until work in the
  // background is done.
  int64_t (*live)(const char* kind);
  const char* (*live_list)(); // "2 buffer, 1 event"
  int64_t (*bytes_in_use)();
  int64_t (*most_in_flight)(); // runs started and not finished, at any time
};

} // namespace fake

extern "C" __attribute__((visibility("default"))) const fake::Control* FakePluginControl();
