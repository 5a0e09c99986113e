// bench_pjrt step|layers|start PLUGIN [quickstart|small] [turns]: the second engine on a plugin.
//
//   step     a training step against the same text run by JAX
//   layers   seconds of compiling for 4, 16 and 64 layers
//   start    the first step of a process, with an empty and with a full cache

#include "bed.h"

#include "base/error.h"

int main(int argc, char** argv) {
  using namespace dllm::bench;
  const std::string what = argc > 1 ? argv[1] : "";
  Args args;
  if (argc > 2) args.plugin = argv[2];
  if (argc > 3) args.shape = argv[3];
  if (argc > 4) args.turns = std::max(1L, std::atol(argv[4]));
  try {
    if (what == "step" && argc > 2) return bench_step(args), 0;
    if (what == "layers" && argc > 2) return bench_layers(args), 0;
    if (what == "start" && argc > 2) return bench_start(args), 0;
  } catch (const dllm::Error& error) {
    fmt::print(stderr, "{}\n{}\n", error.text(), error.hint());
    return 1;
  }
  fmt::print(stderr, "bench_pjrt step|layers|start PLUGIN [quickstart|small] [turns]\n");
  return 2;
}
