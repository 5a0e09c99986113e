// Damaged config.json next to good weights.

#include "clients.h"

using namespace dllm::hostile;

int main(int count, char** arguments) {
  Harness harness("config", count, arguments,
                  {DLLM_INVALID_ARGUMENT, DLLM_NOT_FOUND, DLLM_DATA_LOSS, DLLM_UNIMPLEMENTED,
                   DLLM_RESOURCE_EXHAUSTED});
  const Folder folder;
  const Engine engine = small_engine();
  must(dllm_model_save(tiny_model(engine.get()).get(), folder.path("model").c_str(), nullptr,
                       nullptr, shared_error()));
  const std::string weights = read_bytes(folder.path("model/model.safetensors"));
  const std::string saved = read_bytes(folder.path("model/config.json"));

  const Feed load = [&](const std::string& bytes) {
    return outcome([&] {
      const auto source =
          make<Source>([](auto** out) { return dllm_source_new(out, shared_error()); });
      must(dllm_source_add(source.get(), "config.json", bytes.data(), size_of(bytes), 0,
                           shared_error()));
      must(dllm_source_add(source.get(), "model.safetensors", weights.data(), size_of(weights), 1,
                           shared_error()));
      const auto loaded = make<Model>([&](auto** out) {
        return dllm_model_load_source(engine.get(), source.get(), nullptr, nullptr, out,
                                      shared_error());
      });
      const Buffer text(dllm_buffer_new());
      must(dllm_model_config(loaded.get(), text.get(), shared_error()));
      must(dllm_model_describe(loaded.get(), text.get(), shared_error()));
    });
  };
  harness.seed("hand written", kTinyConfig, load);
  harness.seed("saved", saved, load);
  harness.mutants(
      "config.json",
      [&](uint64_t number) {
        return mutant({kTinyConfig, saved}, Form::json, number);
      },
      load);
  harness.known("no object", "[]", DLLM_INVALID_ARGUMENT, "config.json", load);
  return harness.finish();
}
