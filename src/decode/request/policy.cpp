#include "decode/request/policy.h"

#include "base/error.h"
#include "base/named_table.h"
#include "decode/array/solver.h"
#include "decode/policies/policies.h"
#include "decode/request/blockwise.h"
#include "decode/request/request.h"
#include "graph/ops.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <limits>

namespace dllm::decode {

namespace {

const std::vector<PolicyKind>& kinds() {
  static const std::vector<PolicyKind> all = [] {
    std::vector<PolicyKind> made;
    for (const auto& kind : policy_files::kTable) made.push_back(kind());
    return made;
  }();
  return all;
}

// An option of a decoder. A new option of all requests is a row below with how = replaces or adds.
struct DecoderKey {
  DecoderKey(OptionSpec option, PerRequest how = PerRequest::no)
      : spec(std::move(option)), per_request(how) {}

  OptionSpec spec;
  PerRequest per_request;
};

std::vector<DecoderKey> decoder_table(const std::string& policy) {
  return {
      option_choice("policy", policy, policy_names(),
                    "Which open positions are decided in a step."),
      {option_i64("steps", 64, 1, 1 << 20,
                  "Denoising steps of a request, spread evenly over its blocks."),
       PerRequest::replaces},
      {option_i64("block_length", 0, 0, 1 << 24,
                  "Positions of a block, which are decided before the next block begins; 0: all in "
                  "one block."),
       PerRequest::replaces},
      option_i64("gen_length", 64, 0, 1 << 24, "Open positions after a prompt."),
      option_i64("max_length", 0, 0, 1 << 24,
                 "Most positions of a canvas; 0: the model's own limit. More than the model's "
                 "limit works only with rotary positions."),
      option_f64("temperature", 0, 0, 100,
                 "Divides the logits of a draw, 1e-6 at least; 0 takes the likeliest token."),
      option_str("schedule", "linear",
                 "Noise schedule that sets the number of positions a step decides."),
      option_json(
          "schedule_alphas",
          "A schedule of your own in place of `schedule`: alpha(t) at even times from t = 0 "
          "to 1, such as [1, 0.3, 0]; linear between them; empty: none."),
      option_i64("schedule_steps", 0, 0, 1'000'000,
                 "Number of discrete times of a nano_ schedule; 0: its own number."),
      option_f64("schedule_eps", -1, -1, 0.5,
                 "The schedule's eps, the part of the noisiest end that is cut off; -1: its own."),
      option_choice("attention", "auto", {"auto", "causal", "bidirectional", "block_causal"},
                    "Attention of a token; auto: the model's own."),
      option_i64("shift", -1, -1, 1,
                 "1: the hidden state before a token predicts it; -1: the model's own."),
      option_choice(
          "cache", "auto", {"auto", "none", "exact", "prefix", "dual"},
          "K and V that are kept between steps. exact: of decided blocks, causal and "
          "block_causal attention only, the same tokens as none. prefix, dual: also under "
          "bidirectional attention, approximate. auto: exact where it is possible."),
      option_f64("guidance", 0, 0, 100,
                 "Weight of classifier-free guidance: logits move away from the logits without the "
                 "given tokens; 0: off."),
      {option_choice("solver", "ddim", solver_names(),
                     "What takes noise out of the array of a policy over arrays."),
       PerRequest::replaces},
      option_ids("guidance_keep", "Given token ids that stay without guidance too."),
      option_f64("early_exit", 0, 0, 1,
                 "Decides the rest of a block at once when each of its open positions is at least "
                 "this probable; 0: off."),
      {option_ids("suppress", "Token ids that are never drawn."), PerRequest::adds},
      {option_list("logit_bias", {},
                   "ID=VALUE adds a number from -100 to 100 to the logits of a token before it is "
                   "drawn. The last value of a token counts."),
       PerRequest::adds},
      {option_i64(
           "top_logprobs", 0, 0, 64,
           "Number of likeliest tokens that a request keeps of each position, as it was when "
           "its token was written."),
       PerRequest::replaces},
      option_bool("suppress_mask", true, "The mask token is never drawn."),
      option_bool("suppress_unused", true,
                  "Ids that fill up the vocabulary, for which the model's tokenizer has no token, "
                  "are never drawn."),
      option_ids("defer",
                 "Token ids that are decided last: when positions are compared, their probability "
                 "counts as 0, also in the sum of all."),
      option_choice(
          "loop", "auto", {"auto", "host", "device"},
          "What runs the steps. device: a program takes all steps of a block and the host repeats "
          "them from its record: the same tokens with fewer trips. host: a program per step. auto: "
          "device on engines that run ahead of the host, where policy and options allow it."),
      option_i64("slots", 256, 1, 1 << 16, "Most requests at a time."),
      option_bool("trace", false,
                  "Record every step as one line of JSON (about 30 bytes a position)."),
      option_i64("trace_bytes", int64_t{64} << 20, 1 << 10, int64_t{1} << 40,
                 "Most bytes of the trace of one request; after them recording stops, and the last "
                 "line records that it stopped."),
      {option_list("adapters", {},
                   "Adapters of the model that the passes use, NAME or NAME:WEIGHT, whose changes "
                   "are added; none: the base alone; empty: all adapters of the model."),
       PerRequest::replaces},
      option_list("adapter_folders", {},
                  "Further adapters, NAME=FOLDER, which are loaded when a request names them. Then "
                  "the decoder keeps the weights that the model has now."),
      option_i64("adapter_bytes", 0, 0, int64_t{1} << 50,
                 "Most bytes of the adapters of adapter_folders in memory: the one that was not "
                 "used for the longest time is removed first; 0: no limit."),
      option_choice("on_change", "continue", {"continue", "fail"},
                    "What a step does after the model's weights changed."),
  };
}

std::vector<OptionSpec> decoder_keys(const std::string& policy) {
  std::vector<OptionSpec> keys;
  const std::vector<DecoderKey> all = decoder_table(policy);
  for (const DecoderKey& row : all) keys.push_back(row.spec);
  add_filters(keys, [](const OptionSpec& option) { return option; });
  return keys;
}

Schema make_schema(const std::string& kind, const std::string& policy, const PolicyKind* kind_of) {
  std::vector<OptionSpec> keys = decoder_keys(policy);
  if (kind_of != nullptr) {
    for (const OptionSpec& own : kind_of->options) {
      const auto same = std::find_if(keys.begin(), keys.end(),
                                     [&](const OptionSpec& key) { return key.key == own.key; });
      if (same == keys.end()) {
        keys.push_back(own);
      } else {
        const std::string group = same->group;
        *same = own;
        if (same->group.empty()) same->group = group;
      }
    }
  }
  return Schema(kind, std::move(keys));
}

} // namespace

Outcome Session::host_decided(Request&, const std::vector<int64_t>&) {
  fail_with_hint("make the decoder with a block-wise policy, for example low_confidence",
                 Code::unimplemented, "this policy does not let the host decide");
}

Json Session::memory() const {
  return Json::object();
}

LoopPlan Session::plan_loop(const Request&, const CacheView&) const {
  fail(Code::internal, "this policy has no loop");
}

LoopTables Session::loop_tables(const Request&, int64_t) const {
  fail(Code::internal, "this policy has no loop");
}

const std::vector<RequestKey>& request_settings() {
  static const std::vector<RequestKey> keys = [] {
    std::vector<RequestKey> made;
    const std::vector<DecoderKey> all = decoder_table("low_confidence");
    for (const DecoderKey& row : all) {
      if (row.per_request != PerRequest::no) made.push_back({row.spec, row.per_request});
    }
    return made;
  }();
  return keys;
}

std::vector<std::string> policy_names() {
  return names_of(kinds(), &PolicyKind::name);
}

bool writes_in_place(const std::string& policy) {
  return need_named(kinds(), policy, &PolicyKind::name, {"policy"}).writes_in_place;
}

const Schema& decoder_schema(const std::string& policy) {
  static const Schema general = make_schema("decoder", "low_confidence", nullptr);
  static const std::vector<Schema> own = [] {
    std::vector<Schema> list;
    for (const PolicyKind& kind : kinds())
      list.push_back(make_schema(std::string("decoder:") + kind.name, kind.name, &kind));
    return list;
  }();
  if (policy.empty()) return general;
  for (const Schema& schema : own) {
    if (schema.kind() == "decoder:" + policy) return schema;
  }
  fail_unnamed({"policy"}, policy, policy_names());
}

int64_t block_length_of(const PolicySetup& setup) {
  const bool own = !setup.options.is_set("block_length") && setup.config.block_length > 0;
  return own ? setup.config.block_length : setup.i64("block_length");
}

std::unique_ptr<Policy> make_policy(const std::string& name, const PolicySetup& setup) {
  return need_named(kinds(), name, &PolicyKind::name, {"policy"}).make(setup);
}

int32_t parse_id(const std::string& text, int64_t vocab, const char* what) {
  int32_t id = -1;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), id);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() || id < 0 ||
      id >= vocab) {
    fail_with_hint("give token ids with commas; --until of dllm generate takes a text",
                   Code::invalid_argument, "{} is \"{}\", expected a token id from 0 to {}", what,
                   text, vocab - 1);
  }
  return id;
}

std::shared_ptr<const std::vector<int32_t>> drawn_ids(const PolicySetup& setup, int32_t without) {
  if (setup.tokens == nullptr) return nullptr;
  auto ids = std::make_shared<std::vector<int32_t>>();
  for (int64_t id = 0; id < setup.config.vocab_size; ++id) {
    if (id != without && setup.tokens->has(id)) ids->push_back(static_cast<int32_t>(id));
  }
  const bool all = static_cast<int64_t>(ids->size()) + 1 >= setup.config.vocab_size;
  return all || ids->empty() ? nullptr : ids;
}

int32_t token_option(const PolicySetup& setup, const char* key) {
  const int64_t id = setup.i64(key);
  if (id >= setup.config.vocab_size) {
    fail(Code::invalid_argument, "option {} is {}, expected a token id from 0 to {}", key, id,
         setup.config.vocab_size - 1);
  }
  return static_cast<int32_t>(id);
}

CacheMode cache_mode(const std::string& cache, const AttentionSpan& span) {
  if (cache == "auto") return span.is_exact() ? CacheMode::exact : CacheMode::none;
  if (cache == "none") return CacheMode::none;
  if (cache == "exact") {
    if (!span.is_exact()) {
      fail_with_hint(
          "use cache none, prefix or dual (the last two approximate), or a block_causal model",
          Code::invalid_argument,
          "cache exact needs causal or block_causal attention: under bidirectional attention "
          "K and V of decided positions change with every later token");
    }
    return CacheMode::exact;
  }
  if (span.is_exact()) {
    fail_with_hint(
        "use cache exact", Code::invalid_argument,
        "cache {} approximates bidirectional attention; this attention allows an exact one", cache);
  }
  return cache == "prefix" ? CacheMode::prefix : CacheMode::dual;
}

BlockwiseSettings blockwise_settings(const PolicySetup& setup) {
  BlockwiseSettings settings;
  settings.cache = cache_mode(setup.options.str("cache"), setup.span);
  settings.steps = setup.i64("steps");
  settings.block_length = setup.i64("block_length");
  settings.shift = setup.shift;
  settings.mask_id = setup.mask_id;
  settings.guidance = static_cast<float>(setup.f64("guidance"));
  for (const std::string& text : setup.options.list("guidance_keep"))
    settings.guidance_keep.push_back(
        parse_id(text, setup.config.vocab_size, "option guidance_keep"));
  settings.early_exit = static_cast<float>(setup.f64("early_exit"));
  if (settings.guidance == 0) return settings;
  if (settings.cache == CacheMode::prefix || settings.cache == CacheMode::dual) {
    fail_with_hint("use cache none, or guidance 0", Code::invalid_argument,
                   "guidance {} needs a second canvas, which cache {} does not keep",
                   settings.guidance, setup.options.str("cache"));
  }
  settings.cache = CacheMode::none; // an exact cache has the same bits
  return settings;
}

PolicySetup block_causal_setup(const PolicySetup& setup) {
  const std::string& policy = setup.options.str("policy");
  const std::string& attention = setup.options.str("attention");
  if (attention != "auto" && attention != "block_causal") {
    fail_with_hint("leave attention at auto, or use low_confidence", Code::invalid_argument,
                   "policy {} decodes with block_causal attention, not {}", policy, attention);
  }
  PolicySetup made = setup;
  made.span = {block_length_of(setup), 0, false};
  return made;
}

using graph::Graph;
using graph::Value;

LoopOrder order_of(Value scores, Value among, bool largest_first) {
  Graph& graph = *scores.graph;
  const int64_t rows = scores.dim(0), block = scores.dim(1);
  const float last = std::numeric_limits<float>::max();
  const Value hidden = graph::scalar(graph, largest_first ? -last : last);
  const Value at = graph::sort(graph::select(among, scores, hidden), largest_first).indices;
  // The inverse of every row's permutation. The rows are stored one after the other.
  const Shape both{rows, block}, flat{rows * block};
  const Value first = graph::multiply(graph::iota(graph, both, DType::i32, 0),
                                      graph::scalar_i32(graph, static_cast<int32_t>(block)));
  const Value place = graph::iota(graph, both, DType::i32, 1);
  const Value rank =
      graph::scatter_set(graph::reshape(place, flat), graph::reshape(graph::add(at, first), flat),
                         graph::reshape(place, flat));
  return {at, graph::reshape(rank, both)};
}

Value per_row(Value x) {
  return graph::reshape(x, Shape{x.dim(0), 1});
}

Value any_of(Value x) {
  return graph::greater(graph::max(graph::convert(x, DType::i32), {1}),
                        graph::scalar_i32(*x.graph, 0));
}

Value without(Value x, Value y) {
  return graph::logical_and(x, graph::logical_not(y));
}

Value first_of(const LoopOrder& order, Value count, Value among) {
  return graph::logical_and(graph::less(order.rank, per_row(count)), among);
}

} // namespace dllm::decode
