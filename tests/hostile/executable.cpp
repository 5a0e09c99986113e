// A file of the executable cache: a damaged one is not there, and never another program.

#include "harness.h"

#include "pjrt/cache/executable_cache.h"

using namespace dllm::hostile;

int main(int count, char** arguments) {
  Harness harness("executable", count, arguments, {5});
  const std::string key = "0123456789abcdef0123456789abcdef",
                    program = "a program of a device, " + std::string(300, '\x5a');
  const std::string file = dllm::pjrt::cache_file_head(key, program) + program;
  const Feed read = [&](const std::string& bytes) -> Outcome {
    const auto found = dllm::pjrt::cached_program(bytes, key);
    if (!found) return {5, "no program"};
    if (*found != program) return {13, "another program came back"};
    return {};
  };
  harness.seed("file", file, read);
  harness.mutants(
      "cache file", [&](uint64_t number) { return mutant({file}, Form::binary, number); }, read);
  harness.known("a file of another key", dllm::pjrt::cache_file_head("other", program) + program, 5,
                "no program", read);
  return harness.finish();
}
