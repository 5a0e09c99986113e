// Weights in safetensors form: as a model and as a file to look into.

#include "clients.h"

using namespace dllm::hostile;

int main(int count, char** arguments) {
  Harness harness("safetensors", count, arguments,
                  {DLLM_NOT_FOUND, DLLM_DATA_LOSS, DLLM_UNIMPLEMENTED, DLLM_RESOURCE_EXHAUSTED});
  const Folder folder;
  const Engine engine = small_engine();
  const Model model = tiny_model(engine.get());
  must(
      dllm_model_save(model.get(), folder.path("model").c_str(), nullptr, nullptr, shared_error()));
  const std::string seed = read_bytes(folder.path("model/model.safetensors")), config = kTinyConfig;

  const Feed as_model = [&](const std::string& bytes) {
    return outcome([&] {
      const auto source =
          make<Source>([](auto** out) { return dllm_source_new(out, shared_error()); });
      must(dllm_source_add(source.get(), "config.json", config.data(), size_of(config), 0,
                           shared_error()));
      must(dllm_source_add(source.get(), "model.safetensors", bytes.data(), size_of(bytes), 1,
                           shared_error()));
      const auto loaded = make<Model>([&](auto** out) {
        return dllm_model_load_source(engine.get(), source.get(), nullptr, nullptr, out,
                                      shared_error());
      });
      const char* name = dllm_model_param_name(loaded.get(), 0);
      make<Tensor>(
          [&](auto** out) { return dllm_model_param(loaded.get(), name, out, shared_error()); });
    });
  };
  const Feed as_file = [&](const std::string& bytes) {
    return outcome([&] { read_weights(folder.write("x.safetensors", bytes)); });
  };
  harness.seed("model", seed, as_model);
  harness.seed("file", seed, as_file);
  const Make header = [&](uint64_t number) { return header_mutant(seed, number); };
  const Make bits = [&](uint64_t number) {
    return mutant({seed.substr(0, 2000), seed}, Form::binary, number);
  };
  harness.mutants("header as a model", header, as_model);
  harness.mutants("header as a file", header, as_file);
  harness.mutants("cut file", bits, as_file);
  return harness.finish();
}
