// Options as JSON, for every kind: a refusal changes nothing.

#include "clients.h"

#include <nlohmann/json.hpp>

#include <vector>

using namespace dllm::hostile;

namespace {

std::string values_of(const dllm_options* opts) {
  const Buffer text(dllm_buffer_new());
  must(dllm_options_to_json(opts, text.get(), shared_error()));
  return static_cast<const char*>(dllm_buffer_data(text.get()));
}

Outcome set(const char* kind, const std::string& bytes) {
  const auto opts =
      make<Options>([&](auto** out) { return dllm_options_new(kind, out, shared_error()); });
  const std::string before = values_of(opts.get());
  const Outcome made = outcome([&] {
    must(dllm_options_set_json(opts.get(), bytes.data(), size_of(bytes), shared_error()));
  });
  if (made.status != DLLM_OK && values_of(opts.get()) != before)
    return {DLLM_INTERNAL, "a refusal changed the options"};
  if (made.status == DLLM_OK) { // what was accepted is accepted again
    const std::string values = values_of(opts.get());
    return outcome([&] {
      must(dllm_options_set_json(opts.get(), values.data(), size_of(values), shared_error()));
    });
  }
  return made;
}

} // namespace

int main(int count, char** arguments) {
  // NOT_FOUND: a key that the kind does not have.
  Harness harness("options", count, arguments,
                  {DLLM_INVALID_ARGUMENT, DLLM_NOT_FOUND, DLLM_DATA_LOSS});
  for (const char* kind :
       {"engine", "model", "decoder", "trainer", "loader", "dataset", "tokenizer", "checkpoint"}) {
    const auto opts =
        make<Options>([&](auto** out) { return dllm_options_new(kind, out, shared_error()); });
    const std::string seed = values_of(opts.get());
    const Feed feed = [&](const std::string& bytes) { return set(kind, bytes); };
    harness.seed(kind, seed, feed);
    harness.mutants(
        kind, [&](uint64_t number) { return mutant({seed}, Form::json, number); }, feed);
  }
  return harness.finish();
}
