// Weights of torch.save, as a file to look into. Argument: the folder of the fixtures.

#include "clients.h"

using namespace dllm::hostile;

int main(int count, char** arguments) {
  if (count < 2) return 2;
  const std::string fixtures = arguments[1];
  Harness harness("torch", count - 1, arguments + 1,
                  {DLLM_NOT_FOUND, DLLM_DATA_LOSS, DLLM_UNIMPLEMENTED, DLLM_RESOURCE_EXHAUSTED});
  const Folder folder;
  const Feed as_file = [&](const std::string& bytes) {
    return outcome([&] { read_weights(folder.write("x.bin", bytes)); });
  };
  const std::string module = read_bytes(fixtures + "/module.bin");
  const std::string types = read_bytes(fixtures + "/types_protocol_4.bin");
  harness.seed("module", module, as_file);
  const Make bits = [&](uint64_t number) {
    return mutant({module, types, module.substr(0, 900)}, Form::binary, number);
  };
  harness.mutants("a file", bits, as_file);
  return harness.finish();
}
