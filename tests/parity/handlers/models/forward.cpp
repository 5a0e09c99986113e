// jax/forward and nano/forward: logits of whole models under injected masks, positions and
// embeddings. jax: "files" [{model, file, cases}], keys <case>.<array>. nano: "cases", keys
// <case>.{input_ids, timesteps, logits}.

#include "base/error.h"
#include "cached_forward.h"
#include "handlers.h"
#include "handlers/training/edit_checks.h"
#include "model/model.h"
#include "runner.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string_view>

namespace dllm::parity {
namespace {

bool lists(const Json& entry, const char* key, const std::string& name) {
  const auto found = entry.find(key);
  return found != entry.end() &&
         std::find(found->begin(), found->end(), Json(name)) != found->end();
}

// attention_mask of rank 2 (queries, keys) or (batch, keys), rank 3 (batch, queries, keys), rank 4
// (batch, 1, queries, keys). The reference takes a square rank 2 as query by key even where batch =
// keys (README, "ambiguous_square").
void set_mask(Batch& batch, const Tensor& mask, int64_t seq) {
  const Tensor bytes = mask.to(DType::u8);
  const Shape& shape = bytes.shape();
  if (shape.rank() == 4)
    batch.set("mask", bytes.reshaped({shape[0], shape[2], shape[3]}));
  else if (shape.rank() == 3)
    batch.set("mask", bytes);
  else if (shape[0] == seq && shape[1] == seq)
    batch.set("mask", bytes.reshaped({1, seq, seq}));
  else
    batch.set("keys", bytes);
}

// The type of numbers that the file says the reference was built with: key "dtype", else the words
// dtype "<name>" of the description; float32 where it says none.
DType stated_dtype(Case& c, const Json& entry) {
  std::string name = entry.value("dtype", "");
  if (name.empty()) {
    static constexpr std::string_view kWords = "dtype \"";
    const std::string text = entry.value("description", "");
    const size_t words = text.find(kWords);
    if (words == std::string::npos) return DType::f32;
    name = text.substr(words + kWords.size());
    name = name.substr(0, name.find('"'));
  }
  if (name == "float32") return DType::f32;
  if (name == "bfloat16") return DType::bf16;
  if (name == "float16") return DType::f16;
  c.skip("a reference with dtype " + name + " is not known");
}

// The reference with a narrower dtype rounds what it looks up and nothing else.
Tensor rounded_embeddings(model::Model& model, const Tensor& ids, DType dtype) {
  Options options(model::forward_schema());
  options.set_json(Json{{"outputs", {"layers"}}});
  Batch batch;
  batch.set("ids", ids);
  return model::forward(model, batch, options).at("layers").row(0).to(dtype).to(DType::f32);
}

// A window of `prefill` ids, then the rest, over one buffer of "buffer" rows.
void run_cached_case(Case& c, const Json& entry, const std::string& model_name) {
  const std::shared_ptr<model::Model> model = c.topic().model(model_name);
  const Tensor& ids = c.array("input_ids");
  const int64_t batch = ids.shape()[0], first = entry.at("prefill").get<int64_t>();
  const auto part = [&](int64_t begin, int64_t end) {
    Tensor window(DType::i32, {batch, end - begin});
    for (int64_t b = 0; b < batch; ++b) {
      std::copy_n(ids.as<int32_t>().begin() + b * ids.shape()[1] + begin, end - begin,
                  window.mutable_as<int32_t>().begin() + b * (end - begin));
    }
    return window;
  };
  CachedForward forward(model, batch, entry.at("buffer").get<int64_t>());
  const Tolerance tolerance = c.topic().tolerance(entry);
  const Tensor prefill = forward.run(part(0, first), 0, c.array("prefill_mask"));
  c.close(tolerance, prefill, c.array("prefill_logits"), "prefill_logits");
  const Tensor block = forward.run(part(first, ids.shape()[1]), first, c.array("block_mask"));
  c.close(tolerance, block, c.array("block_logits"), "block_logits");
  for (int64_t layer = 0; layer < model->config().layers; ++layer) {
    const std::string number = std::to_string(layer);
    if (!c.has("k." + number)) continue; // some files keep the logits alone
    c.close(tolerance, forward.keys(layer), c.array("k." + number), "k." + number);
    c.close(tolerance, forward.values(layer), c.array("v." + number), "v." + number);
  }
}

void run_jax_case(Case& c, const Json& entry, const std::string& model_name) {
  if (entry.contains("buffer")) return run_cached_case(c, entry, model_name);
  const bool edits = lists(entry, "outputs", "sub_logits");
  if (!edits && !lists(entry, "outputs", "logits"))
    c.skip("outputs other than logits are not supported yet");
  const std::shared_ptr<model::Model> model = c.topic().model(model_name);
  const DType dtype = stated_dtype(c, entry);
  Batch batch;
  if (lists(entry, "inputs", "inputs_embeds"))
    batch.set("embeddings", c.array("inputs_embeds").to(dtype).to(DType::f32));
  else if (dtype != DType::f32)
    batch.set("embeddings", rounded_embeddings(*model, c.array("input_ids"), dtype));
  else
    batch.set("ids", c.array("input_ids"));
  const int64_t seq = batch.value(0).shape()[1];
  if (lists(entry, "inputs", "position_ids")) batch.set("positions", c.array("position_ids"));
  if (lists(entry, "inputs", "attention_mask")) set_mask(batch, c.array("attention_mask"), seq);

  const bool hidden = c.has("hidden_states");
  Options options(model::forward_schema());
  Json settings = {{"attention", "bidirectional"},
                   {"shift", 0},
                   {"empty_average", true},
                   {"outputs", {edits ? "heads" : "logits"}}};
  if (hidden) settings["outputs"].push_back("hidden");
  options.set_json(settings);
  const Tolerance tolerance = c.topic().tolerance(entry);
  const Batch result = model::forward(*model, batch, options);
  if (edits)
    check_edit_heads(c, tolerance, result);
  else
    c.close(tolerance, result.at("logits"), c.array("logits"), "logits");
  if (hidden) c.close(tolerance, result.at("hidden"), c.array("hidden_states"), "hidden_states");
}

void run_nano_case(Case& c, const Json& entry) {
  const std::shared_ptr<model::Model> model = c.topic().model(entry.at("model").get<std::string>());
  Batch batch;
  batch.set("ids", c.array("input_ids"));
  if (model->config().time_conditioning)
    batch.set("timesteps", c.array("timesteps").to(DType::f32));
  Options options(model::forward_schema());
  options.set_json(Json{{"shift", 0}});
  const Batch result = model::forward(*model, batch, options);
  c.close(c.topic().tolerance(entry), result.at("logits"), c.array("logits"), "logits");
}

// {"<model>": {"all": n, "nonembed": n}}; nonembed leaves out the token embedding only.
void run_count(Case& c, const std::string& model_name, const Json& counts) {
  const std::shared_ptr<model::Model> model = c.topic().model(model_name);
  const int64_t all = model->params().parameter_count();
  const int64_t embedding = model->config().vocab_size * model->config().hidden_size;
  if (counts.contains("all")) c.equal(all, counts.at("all").get<int64_t>(), "all");
  if (counts.contains("nonembed"))
    c.equal(all - embedding, counts.at("nonembed").get<int64_t>(), "nonembed");
}

} // namespace

void run_forward(Topic& topic) {
  for (const Json& file : topic.list("files")) {
    const std::string model = file.at("model").get<std::string>();
    for (const Json& entry : file.at("cases")) {
      Json named = entry;
      const std::string name = entry.at("name").get<std::string>();
      named["name"] = model + "." + name;
      named["file"] = file.at("file");
      topic.run(named, [&](Case& c) {
        c.set_prefix(name);
        run_jax_case(c, entry, model);
      });
    }
  }
  for (const Json& entry : topic.list("cases")) {
    topic.run(entry, [&](Case& c) { run_nano_case(c, entry); });
  }
  if (const auto counts = topic.cases().find("parameter_counts"); counts != topic.cases().end()) {
    for (const auto& [model, numbers] : counts->items()) {
      topic.run("parameter_counts." + model, [&](Case& c) { run_count(c, model, numbers); });
    }
  }
}

} // namespace dllm::parity
