// A saved trace, as dllm replay reads it: drawn as a page, or refused.

#include "harness.h"

#include "cli/command.h"
#include "cli/pictures/pictures.h"
#include "unit/cli/traces.h"

using namespace dllm::hostile;
using namespace dllm::cli;

int main(int count, char** arguments) {
  constexpr int32_t kInvalid = 3, kExhausted = 8, kDataLoss = 15;
  Harness harness("trace", count, arguments, {kInvalid, kExhausted, kDataLoss});
  const Feed read = [](const std::string& bytes) -> Outcome {
    try {
      const Trace trace = parse_trace(bytes, "trace.jsonl");
      const std::string page = replay_html(trace);
      const std::string map = heat_map_svg(trace, trace.slots.front());
      if (page.empty() || map.empty()) return {13, "nothing was drawn"};
    } catch (const Failure& failure) {
      return {failure.status(), failure.what()};
    }
    return {};
  };
  const std::string seed = kLines;
  harness.seed("trace", seed, read);
  harness.mutants(
      "trace", [&](uint64_t number) { return mutant({seed}, Form::lines, number); }, read);
  return harness.finish();
}
