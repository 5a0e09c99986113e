#include "train/anchors/anchor_pass.h"

#include "base/error.h"
#include "graph/ops.h"
#include "model/content_digest.h"
#include "model/network/builder.h"
#include "model/network/token_batch.h"
#include "noise/terms/align_rows.h"
#include "text/data/anchor_cache.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>

namespace dllm::train {
namespace {

constexpr size_t kPrograms = 32; // compiled, by shape

// Returns rows [0, tokens) of entry `row` of an array (batch, width, n).
Tensor rows_of(const Tensor& array, int64_t row, int64_t tokens) {
  const int64_t width = array.shape()[1], count = array.shape()[2];
  Tensor made(array.dtype(), {tokens, count});
  std::memcpy(made.mutable_bytes(), array.bytes() + row * width * count * dtype_size(array.dtype()),
              static_cast<size_t>(made.byte_size()));
  return made;
}

// Moves the predictions of a state to the position that it predicts. The first positions have none:
// their ids are -1.
Tensor moved(const Tensor& rows, int shift) {
  Tensor made(rows.dtype(), rows.shape());
  const bool is_ids = rows.dtype() == DType::i32;
  std::memset(made.mutable_bytes(), is_ids ? 0xFF : 0, static_cast<size_t>(made.byte_size()));
  const int64_t skipped =
      std::min<int64_t>(shift, rows.shape()[0]) * rows.shape()[1] * dtype_size(rows.dtype());
  std::memcpy(made.mutable_bytes() + skipped, rows.bytes(),
              static_cast<size_t>(rows.byte_size() - skipped));
  return made;
}

} // namespace

const Schema& anchor_schema() {
  static const Schema schema(
      "anchors",
      {option_list("layers", {},
                   "layers whose states are kept, such as 7,14,21,28: 0 is the embedding, 1 the "
                   "first layer; all: every one; empty: four at equal distances, as an alignment "
                   "reads"),
       option_choice("store", "bf16", {"f32", "bf16", "int8"},
                     "how states are stored; int8: with a scale for each group, the error is at "
                     "most 1/254 of the largest number of the group"),
       option_i64("group", 64, 1, 1 << 20, "numbers that share a scale of int8"),
       option_i64("top", 0, 0, 1 << 16,
                  "likeliest tokens of each position whose logits are kept, for distillation; 0: "
                  "none"),
       option_i64("shard", 0, 0, 1 << 20, "number of this part of the work, below shards"),
       option_i64("shards", 1, 1, 1 << 20,
                  "parts of the work, each for one process with the same folder"),
       option_bool("fresh", false, "remove the anchors of the folder, and begin again")});
  return schema;
}

AnchorPass::AnchorPass(std::shared_ptr<model::Model> teacher, const Options& options)
    : teacher_(std::move(teacher)),
      layers_(noise::named_layers("layers", options.list("layers"), teacher_->config().layers)),
      store_(options.str("store")), group_(options.i64("group")), top_(options.i64("top")),
      attention_(teacher_->config().attention), parts_(teacher_->reading()), programs_(kPrograms) {
  const model::ModelConfig& config = teacher_->config();
  if (config.time_conditioning)
    fail(Code::unimplemented, "a teacher that is conditioned on time is not supported");
  if (store_ != "int8" && options.is_set("group")) {
    fail_with_hint("set store to int8", Code::invalid_argument,
                   "group is of store int8, and store is {}", store_);
  }
  if (store_ == "int8" && config.hidden_size % group_ != 0) {
    fail_with_hint(fmt::format("set group to a divisor of {}", config.hidden_size),
                   Code::invalid_argument, "group {} does not divide the width {} of the teacher",
                   group_, config.hidden_size);
  }
  if (top_ > config.vocab_size) {
    fail(Code::invalid_argument, "top is {}, and the teacher has {} tokens", top_,
         config.vocab_size);
  }
  if (top_ > 0 && attention_ != model::AttentionKind::causal) {
    fail_with_hint("load the teacher with attention causal, or set top to 0",
                   Code::invalid_argument,
                   "a teacher that sees the clean text on both sides sees the tokens that it "
                   "predicts");
  }
}

int AnchorPass::shift() const {
  return attention_ == model::AttentionKind::causal ? 1 : teacher_->config().shift;
}

Json AnchorPass::settings(const Task* task) const {
  Json made{{"layers", layers_},
            {"store", store_},
            {"top", top_},
            {"attention", model::attention_name(attention_)},
            {"teacher",
             {{"weights", model::content_digest(*teacher_, task)},
              {"arithmetic", teacher_->engine().describe().value("arithmetic", "f32")}}}};
  if (store_ == "int8") made["group"] = group_;
  return made;
}

Batch AnchorPass::feed(std::span<const std::vector<int32_t>> chunks, int64_t width) const {
  const Shape shape{std::ssize(chunks), width};
  Tensor ids(DType::i32, shape), segments(DType::i32, shape);
  std::ranges::fill(ids.mutable_as<int32_t>(), 0);
  std::ranges::fill(segments.mutable_as<int32_t>(), 0);
  for (size_t r = 0; r < chunks.size(); ++r) {
    const auto at = static_cast<std::ptrdiff_t>(r) * width;
    std::ranges::copy(chunks[r], ids.mutable_as<int32_t>().begin() + at);
    std::fill_n(segments.mutable_as<int32_t>().begin() + at, chunks[r].size(), 1);
  }
  Batch rows;
  rows.set("ids", std::move(ids));
  rows.set("segments", std::move(segments));
  const model::ModelConfig& config = teacher_->config();
  const auto rules = model::token_rules(model::TokenUse::model_input, config);
  return model::input_arrays(model::parse_tokens(rows, rules), attention_, config.block_length);
}

std::shared_ptr<graph::Program> AnchorPass::compile(const Batch& feed) const {
  const auto graph = std::make_shared<graph::Graph>("anchors");
  model::Builder builder(*graph, *teacher_, parts_);
  const auto values = runtime::feed_inputs(*graph, feed);
  const model::ForwardOutputs pass =
      builder.forward(model::forward_inputs(values, attention_, false), true);
  for (const int64_t layer : layers_)
    graph->output(text::kAnchorState + std::to_string(layer),
                  pass.taps[static_cast<size_t>(layer)]);
  if (top_ > 0) {
    const graph::TopK likeliest = graph::top_k(builder.logits(pass.hidden), top_);
    graph->output(text::kTopIds, likeliest.indices);
    graph->output(text::kTopLogits, likeliest.values);
  }
  return teacher_->engine().compile(graph);
}

ckpt::NamedTensors AnchorPass::arrays_of(const Batch& results, int64_t row, int64_t tokens) const {
  ckpt::NamedTensors made;
  for (const auto& [name, array] : results) {
    const Tensor own = rows_of(array, row, tokens);
    if (!name.starts_with(text::kAnchorState)) {
      made.emplace_back(name, moved(own, shift()));
    } else if (store_ == "int8") {
      text::PackedStates packed = text::pack_states(own, group_);
      made.emplace_back(name, std::move(packed.numbers));
      made.emplace_back(name + text::kAnchorScale, std::move(packed.scales));
    } else {
      made.emplace_back(name, own.to(dtype_from_name(store_)));
    }
  }
  return made;
}

std::vector<ckpt::NamedTensors> AnchorPass::run(std::span<const std::vector<int32_t>> chunks,
                                                int64_t width, const Task* task) {
  const Batch arrays = feed(chunks, width);
  programs_.set_version(teacher_->params().list_version());
  const auto program =
      programs_.get(runtime::feed_signature(arrays), [&] { return compile(arrays); });
  runtime::Arguments arguments(program);
  arguments.share_parameters(teacher_->params().snapshot(parts_, nullptr, task));
  arguments.upload(teacher_->engine(), arrays);
  const std::vector<graph::BufferRef> buffers = arguments.run(task);
  Batch results;
  for (size_t i = 0; i < buffers.size(); ++i)
    results.set(program->graph().outputs()[i].name, buffers[i]->read(task));
  std::vector<ckpt::NamedTensors> made;
  for (size_t r = 0; r < chunks.size(); ++r)
    made.push_back(arrays_of(results, static_cast<int64_t>(r), std::ssize(chunks[r])));
  return made;
}

} // namespace dllm::train
