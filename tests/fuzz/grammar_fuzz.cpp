// A grammar of a stranger: an automaton within its limits, or an Error. Every text that the
// automaton writes ends, and it accepts this text.
#include "base/error.h"
#include "base/task.h"
#include "text/automaton/byte_automaton.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dllm;
  using text::ByteAutomaton;
  if (size > 4096) return 0;
  const std::string_view grammar(reinterpret_cast<const char*>(data), size);
  Task task; // a fuzzer's build takes long for automata that are large and allowed
  task.set_deadline(1000);
  try {
    const ByteAutomaton automaton(grammar, &task, text::Notation::grammar);
    std::string written;
    int32_t state = automaton.begin();
    size_t drawn = size;
    while (!automaton.accepts(state) || (written.size() < 64 && drawn % 3 != 0)) {
      int32_t next = ByteAutomaton::kDead;
      drawn = 31 * drawn + 7;
      for (size_t i = 0; i < 256 && next == ByteAutomaton::kDead; ++i) {
        const auto byte = static_cast<uint8_t>(drawn + i);
        next = automaton.next(state, byte);
        if (next != ByteAutomaton::kDead) written += static_cast<char>(byte);
      }
      if (next == ByteAutomaton::kDead) {
        if (!automaton.accepts(state)) std::abort(); // a state without an end
        break;
      }
      state = next;
      if (written.size() > 4096) return 0; // a long loop
    }
    if (!automaton.matches(written)) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
