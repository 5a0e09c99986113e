// torch/smollm2: real weights. The GGUF is no part of the goldens: assets/smollm2.gguf.
// Arrays <case>.{ids, top_ids, top_logits, token_nll}, <case>.bidir.{top_ids, top_logits}, and
// dequant.<tensor>.rows<a>_<b>_cols<c>_<d>.

#include "base/error.h"
#include "base/files.h"
#include "ckpt/gguf/gguf.h"
#include "decode/decoder/decoder.h"
#include "handlers.h"
#include "model/model.h"
#include "runner.h"
#include "text/tokenizer.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace dllm::parity {
namespace {

constexpr const char* kAsset = "smollm2.gguf";

std::shared_ptr<model::Model> load(Topic& topic) {
  Options options(model::model_schema());
  options.set_str("dtype", "f32");
  return model::load_model(topic.engine(), topic.asset(kAsset), options);
}

// Logits f32(seq, vocab) of one row of ids.
Tensor logits_of(model::Model& model, const std::vector<int32_t>& ids, const char* attention) {
  Batch batch;
  batch.set("ids", Tensor::from(Shape{1, static_cast<int64_t>(ids.size())}, ids));
  Options options(model::forward_schema());
  options.set_json(Json{{"attention", attention}, {"shift", 0}});
  return model::forward(model, batch, options).at("logits").row(0);
}

std::vector<int32_t> ids_of(const Tensor& tensor) {
  const Tensor ids = tensor.to(DType::i32);
  return {ids.as<int32_t>().begin(), ids.as<int32_t>().end()};
}

// The ids of the largest logits, largest first, and their logits.
void compare_top(Case& c, Tolerance tolerance, const Tensor& row, const std::string& prefix) {
  const std::vector<int32_t> want = ids_of(c.array(prefix + "top_ids"));
  const auto logits = row.as<float>();
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(want.size()),
                    order.end(), [&](int32_t a, int32_t b) {
                      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
                    });
  Tensor values(DType::f32, {static_cast<int64_t>(want.size())});
  for (size_t i = 0; i < want.size(); ++i) {
    values.mutable_as<float>()[i] = logits[static_cast<size_t>(want[i])];
    // Two logits nearer than the tolerance may change places.
    const float gap = logits[static_cast<size_t>(order[i])] - logits[static_cast<size_t>(want[i])];
    c.check(order[i] == want[i] || std::abs(gap) <= 2 * tolerance.absolute, prefix + "top_ids");
  }
  c.close(tolerance, values, c.array(prefix + "top_logits"), prefix + "top_logits");
}

double log_sum_exp(std::span<const float> row) {
  const double top = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float value : row) sum += std::exp(value - top);
  return top + std::log(sum);
}

void compare_nll(Case& c, Tolerance tolerance, const Tensor& logits,
                 const std::vector<int32_t>& ids, double mean) {
  Tensor nll(DType::f32, {static_cast<int64_t>(ids.size()) - 1});
  double sum = 0;
  for (size_t i = 1; i < ids.size(); ++i) {
    const Tensor row = logits.row(static_cast<int64_t>(i) - 1);
    const double value =
        log_sum_exp(row.as<float>()) - row.as<float>()[static_cast<size_t>(ids[i])];
    nll.mutable_as<float>()[i - 1] = static_cast<float>(value);
    sum += value;
  }
  if (c.has("token_nll")) c.close({2e-3, 0}, nll, c.array("token_nll"), "token_nll");
  c.close(tolerance, sum / static_cast<double>(ids.size() - 1), mean, "mean_nll");
}

// Greedy ids of a decoder that keeps K and V, up to the first decision closer than the margin
// (top-two gap below twice the logit tolerance).
void compare_greedy(Case& c, const std::shared_ptr<model::Model>& model,
                    const std::vector<int32_t>& ids, const Json& entry, double margin) {
  const auto want = entry.at("greedy").get<std::vector<int32_t>>();
  Options options(decode::decoder_schema("autoregressive"));
  options.set_i64("gen_length", static_cast<int64_t>(want.size()));
  decode::Decoder decoder(model, options);
  decoder.start(ids, 0);
  decoder.run();
  for (size_t i = 0; i < want.size(); ++i) {
    if (entry.contains("greedy_gaps") && entry.at("greedy_gaps").at(i).get<double>() < margin)
      return;
    c.equal(int64_t{decoder.request(0).ids[ids.size() + i]}, int64_t{want[i]},
            "greedy " + std::to_string(i));
  }
}

void run_dequant(Case& c, const std::string& name, Tolerance tolerance) {
  const size_t cut = name.rfind(".rows");
  int rows_begin = 0, rows_end = 0, cols_begin = 0, cols_end = 0;
  if (cut == std::string::npos ||
      std::sscanf(name.c_str() + cut, ".rows%d_%d_cols%d_%d", &rows_begin, &rows_end, &cols_begin,
                  &cols_end) != 4) {
    c.skip("slice " + name + " is not supported yet");
  }
  const std::string tensor =
      name.substr(std::string("dequant.").size(), cut - std::string("dequant.").size());
  const ckpt::GgufFile file(map_file(c.topic().asset(kAsset)), kAsset);
  const int64_t width = file.tensor_info(tensor).shape[-1];
  std::vector<float> rows(static_cast<size_t>((rows_end - rows_begin) * width));
  file.dequantize(tensor, rows, rows_begin, rows_end);
  Tensor part(DType::f32, {rows_end - rows_begin, cols_end - cols_begin});
  for (int64_t r = 0; r < rows_end - rows_begin; ++r) {
    std::copy_n(rows.begin() + r * width + cols_begin, cols_end - cols_begin,
                part.mutable_as<float>().begin() + r * (cols_end - cols_begin));
  }
  c.close(tolerance, part, c.array(name), tensor);
}

std::shared_ptr<text::Tokenizer> load_tokenizer(const Topic& topic) {
  const ckpt::GgufFile file(map_file(topic.asset(kAsset)), kAsset);
  return text::Tokenizer::from_gguf(ckpt::read_gguf_vocabulary(file),
                                    Options(text::tokenizer_schema()));
}

// Control tokens are matched as whole strings in the text and stay in what is decoded.
void run_text(Case& c, const text::Tokenizer& tokenizer, const Json& entry) {
  text::EncodeOptions encode = tokenizer.encode_options();
  encode.add_special = false;
  encode.parse_special = true;
  const std::vector<int32_t> ids = tokenizer.encode(entry.at("text").get<std::string>(), encode);
  c.equal(Tensor::from(Shape{static_cast<int64_t>(ids.size())}, ids),
          Tensor::from(Shape{static_cast<int64_t>(entry.at("ids").size())},
                       entry.at("ids").get<std::vector<int32_t>>()),
          "ids");
  if (!entry.contains("decoded")) return;
  text::DecodeOptions decode = tokenizer.decode_options();
  decode.skip_special = false;
  c.equal(tokenizer.decode(ids, decode), entry.at("decoded").get<std::string>(), "decoded");
}

void run_tokenizer(Topic& topic) {
  const Json& entries = topic.list("tokenizer");
  std::shared_ptr<text::Tokenizer> tokenizer;
  for (size_t i = 0; i < entries.size(); ++i) {
    topic.run("tokenizer." + std::to_string(i), [&](Case& c) {
      c.needs_asset(kAsset, !topic.asset(kAsset).empty());
      if (!tokenizer) tokenizer = load_tokenizer(topic);
      run_text(c, *tokenizer, entries[i]);
    });
  }
}

} // namespace

void run_smollm2(Topic& topic) {
  const Json limits = topic.cases().value("tolerances", Json::object());
  const Tolerance logit_limit{limits.value("top_logits_atol", 2e-3), 0};
  const Tolerance nll_limit{limits.value("mean_nll_atol", 5e-4), 0};
  const bool there = !topic.asset(kAsset).empty();
  const auto model = there ? load(topic) : nullptr;

  for (const Json& entry : topic.list("cases")) {
    topic.run(entry, [&](Case& c) {
      c.needs_asset(kAsset, there);
      const std::vector<int32_t> ids = ids_of(c.array("ids"));
      const Tensor logits = logits_of(*model, ids, "causal");
      compare_top(c, logit_limit, logits.row(logits.shape()[0] - 1), "");
      if (entry.contains("mean_nll"))
        compare_nll(c, nll_limit, logits, ids, entry.at("mean_nll").get<double>());
      if (c.has("bidir.top_ids")) {
        const Tensor both = logits_of(*model, ids, "bidirectional");
        compare_top(c, logit_limit, both.row(both.shape()[0] - 1), "bidir.");
      }
      if (entry.contains("greedy")) compare_greedy(c, model, ids, entry, 2 * logit_limit.absolute);
    });
  }
  for (const std::string& name : topic.array_names()) {
    if (!name.starts_with("dequant.")) continue;
    topic.run(name, [&](Case& c) {
      c.needs_asset(kAsset, there);
      c.set_prefix("");
      run_dequant(c, name, {limits.value("dequant_atol", 1e-6), 0});
    });
  }
  run_tokenizer(topic);
}

} // namespace dllm::parity
