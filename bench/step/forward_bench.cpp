// bench_forward MODEL [length] [turns] [threads]: the forward pass of a Llama-like model (a GGUF
// file or a folder; SmolLM2 is build/assets/smollm2.gguf) over one row of tokens in f32, all logits
// wanted, in turns with PyTorch on the same weights (torch_forward.py reads what we save). Prints
// how far the logits of the two are apart, then tokens/s and the ratio.

#include "base/files.h"
#include "cpu/engine.h"
#include "graph/engine.h"
#include "model/model.h"
#include "peer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace {

using namespace dllm;

Batch row_of_ids(int64_t length, int64_t vocab) {
  Tensor ids(DType::i32, {1, length});
  for (int64_t i = 0; i < length; ++i) {
    ids.mutable_as<int32_t>()[static_cast<size_t>(i)] =
        static_cast<int32_t>((i * 7919 + 13) % vocab);
  }
  Batch batch;
  batch.set("ids", ids);
  return batch;
}

// The peer leaves the logits of its first pass in `path`, f32(length, vocab).
double worst_difference(const Tensor& logits, const std::string& path) {
  const Bytes bytes = map_file(path);
  const auto* other = reinterpret_cast<const float*>(bytes.data());
  const auto own = logits.as<float>();
  if (bytes.size() != own.size_bytes()) return INFINITY;
  double worst = 0;
  for (size_t i = 0; i < own.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(own[i]) - other[i]));
  return worst;
}

void run(const std::string& path, int64_t length, int64_t turns, int threads) {
  Options engine_options(graph::engine_schema());
  engine_options.set_json(Json{{"threads", threads}});
  Options load_options(model::model_schema()), forward_options(model::forward_schema());
  load_options.set_json(Json{{"dtype", "f32"}});
  forward_options.set_json(Json{{"attention", "causal"}});
  const auto model = model::load_model(cpu::make_engine(engine_options), path, load_options);
  const Batch batch = row_of_ids(length, model->config().vocab_size);

  char folder[] = "/tmp/dllm_bench_XXXXXX";
  if (mkdtemp(folder) == nullptr) return;
  const std::string weights = join_path(folder, "model"), logits = join_path(folder, "logits");
  model::save_model(*model, weights, Options(model::save_schema()));
  Peer peer(DLLM_TORCH_FORWARD, {weights, std::to_string(length), std::to_string(threads), logits});

  Batch result = model::forward(*model, batch, forward_options); // compiles
  Turns times;
  for (int64_t turn = 0; turn < turns; ++turn) {
    const Seconds own = timed([&] { result = model::forward(*model, batch, forward_options); });
    if (peer.ready())
      times.add(own, peer.repeat());
    else
      times.add(own);
  }
  print_machine(threads);
  if (peer.ready())
    std::printf("forward logits apart by at most %.2g\n",
                worst_difference(result.at("logits"), logits));
  times.print("forward", static_cast<double>(length));
  remove_all(folder);
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_forward MODEL [length 256] [turns 15] [threads 2]\n");
    return 2;
  }
  const auto number = [&](int at, int64_t otherwise) {
    return argc > at ? std::max<int64_t>(1, std::atol(argv[at])) : otherwise;
  };
  run(argv[1], number(2, 256), number(3, 15), static_cast<int>(number(4, 2)));
  return 0;
}
