// A JSON schema of a stranger: a pattern within its limits, or an Error. What the pattern's
// automaton writes is JSON.
#include "base/error.h"
#include "base/json.h"
#include "base/task.h"
#include "generate/constraints/constraint_kinds.h"
#include "text/automaton/byte_automaton.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace {

using namespace dllm;
using text::ByteAutomaton;

const Schema& request_keys() {
  static const Schema keys("request", generate::constraint_options());
  return keys;
}

// Returns a text that the automaton accepts; "": the loops of its states are long.
std::string written_by(const ByteAutomaton& automaton, size_t drawn) {
  std::string written;
  for (int32_t state = automaton.begin(); !automaton.accepts(state);) {
    int32_t next = ByteAutomaton::kDead;
    drawn = 31 * drawn + 7;
    // Texts, lists and objects end by these.
    for (const char closing : {'"', ']', '}'}) {
      const int32_t to = automaton.next(state, static_cast<uint8_t>(closing));
      if (to == ByteAutomaton::kDead || (drawn / 8 % 2 == 0 && written.size() < 64)) continue;
      next = to;
      written += closing;
      break;
    }
    for (size_t i = 0; i < 256 && next == ByteAutomaton::kDead; ++i) {
      const auto byte = static_cast<uint8_t>(drawn + i);
      next = automaton.next(state, byte);
      if (next != ByteAutomaton::kDead) written += static_cast<char>(byte);
    }
    if (next == ByteAutomaton::kDead) std::abort(); // a state without an end
    state = next;
    if (written.size() > 4096) return "";
  }
  return written;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 2048) return 0;
  Task task; // a fuzzer's build takes long for automata that are large and allowed
  task.set_deadline(1000);
  try {
    Options request(request_keys());
    request.set_str("json_schema", std::string(reinterpret_cast<const char*>(data), size));
    const generate::ConstraintKind* const kind = generate::chosen_constraint(request);
    if (kind == nullptr) return 0;
    const std::string pattern = kind->pattern(request);
    if (pattern.size() > 20'000) return 0;
    const ByteAutomaton automaton(pattern, &task);
    const std::string written = written_by(automaton, size);
    if (!written.empty() && Json::parse(written, nullptr, false).is_discarded()) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
