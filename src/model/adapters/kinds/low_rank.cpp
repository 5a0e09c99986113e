// LoRA, plain or rank-stabilised.

#include "model/adapters/kinds/low_rank.h"

#include "base/ascii.h"
#include "base/error.h"
#include "base/number.h"
#include "base/random.h"
#include "graph/ops.h"
#include "model/adapters/adapter_ranks.h"
#include "model/adapters/kinds/kind_table.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <type_traits>
#include <utility>

namespace dllm::model {
namespace {

// The keys of LoraConfig of PEFT 0.21.2 after those of PeftConfig, in their order.
constexpr AdapterKey kLoraKeys[] = {
    used_key("r"), used_key("target_modules"), used_key("exclude_modules"), used_key("lora_alpha"),
    used_key("lora_dropout"),
    // Storage of the base's matrix. PEFT sets it from the class of the base.
    harmless_key("fan_in_fan_out"), used_key("bias"), used_key("use_rslora"),
    used_key("modules_to_save"), used_key("init_lora_weights"), used_key("layers_to_transform"),
    used_key("layers_pattern"), used_key("rank_pattern"), used_key("alpha_pattern"),
    off_key("megatron_config"),
    harmless_key("megatron_core"), // of megatron_config
    off_key("trainable_token_indices"),
    harmless_key("loftq_config"),   // of a value of init_lora_weights
    harmless_key("eva_config"),     // the same
    harmless_key("corda_config"),   // the same
    harmless_key("lora_ga_config"), // the same
    used_key("use_dora"),
    harmless_key("velora_config"), // what training keeps for the gradient
    off_key("alora_invocation_tokens"), off_key("use_qalora"),
    harmless_key("qalora_group_size"), // of use_qalora
    off_key("monteclora_config"), off_key("layer_replication"),
    harmless_key("runtime_config"), // the place of memory
    off_key("lora_bias"), off_key("target_parameters"), off_key("use_bdlora"),
    off_key("arrow_config"), off_key("kasa_config"),
    used_key("ensure_weight_tying"), // of modules_to_save and trainable_token_indices
};

constexpr int64_t kMostLoraRank = 1 << 16;

// Reads a list of PATTERN=NUMBER. The number follows the last =.
template <class T>
std::vector<std::pair<std::string, T>> listed_pairs(const Options& options, const char* key,
                                                    double low) {
  std::vector<std::pair<std::string, T>> pairs;
  for (const std::string& entry : options.list(key)) {
    const size_t at = entry.rfind('=');
    const std::optional<double> number =
        at == std::string::npos ? std::nullopt : parse_number(entry.substr(at + 1));
    const bool is_whole = number && *number == std::floor(*number);
    if (at == 0 || !number || *number < low || *number > 1e9 ||
        (std::is_integral_v<T> && !is_whole))
      fail_with_hint("write q_proj=8", Code::invalid_argument, "{}: '{}' is not PATTERN=NUMBER",
                     key, entry.substr(0, 60));
    pairs.emplace_back(entry.substr(0, at), static_cast<T>(*number));
  }
  return pairs;
}

// Fails where the first values were taken out of the base. Such an adapter belongs to another base
// than the published one.
void check_lora_start(const ConfigReader& reader) {
  constexpr const char* kKey = "init_lora_weights";
  constexpr std::string_view kOfTheBase[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
  constexpr std::string_view kApart[] = {"gaussian", "eva", "orthogonal", "mica", "true", "false"};
  if (!reader.has(kKey) || reader.object().at(kKey).is_boolean()) return;
  const std::string word = lower_case(reader.text(kKey, ""));
  if (std::ranges::find(kApart, word) != std::end(kApart)) return;
  const bool of_base = std::ranges::any_of(
      kOfTheBase, [&](std::string_view start) { return word.starts_with(start); });
  fail_with_hint("save it in PEFT with path_initial_model_for_weight_conversion, which writes an "
                 "adapter of the base as published",
                 Code::unimplemented, "{}: {} = {} {}", reader.file(), kKey,
                 shown_value(reader.object().at(kKey)),
                 of_base ? "means that the first values of the adapter changed its base"
                         : "is a way to start of a later PEFT and may have changed the base");
}

// Returns the pairs of rank_pattern or alpha_pattern, in the order of the file.
template <class T>
std::vector<std::pair<std::string, T>> pattern_pairs(const ConfigReader& reader, const char* key,
                                                     double low) {
  std::vector<std::pair<std::string, T>> pairs;
  if (!reader.has(key)) return pairs;
  const Json& object = reader.object().at(key);
  if (!object.is_object()) reader.bad(key, "an object of numbers");
  for (const auto& [pattern, value] : object.items()) {
    const bool fits = std::is_integral_v<T> ? value.is_number_integer() : value.is_number();
    if (!fits || value < low || value > 1e9) reader.bad(key, "an object of numbers");
    pairs.emplace_back(pattern, value.template get<T>());
  }
  return pairs;
}

template <class T> Json object_of(const std::vector<std::pair<std::string, T>>& pairs) {
  Json object = Json::object();
  for (const auto& [key, value] : pairs) object[key] = value;
  return object;
}

// For the second product each choice of a row is a row.
graph::Value low_rank_of_experts(const AdapterPass& pass, graph::Value experts) {
  const NamedParam down = pass.adapter.tensor(kDownSuffix), up = pass.adapter.tensor(kUpSuffix);
  const int64_t rows = experts.dim(0), choices = experts.dim(1), rank = down.value.dim(1),
                out = up.value.dim(1);
  const graph::Value inner = // (rows, choices, rank)
      graph::expert_linear(adapter_input(pass.linear, pass.adapter, pass.x), experts, down.value);
  const graph::Value made =
      graph::expert_linear(graph::reshape(inner, {rows * choices, rank}),
                           graph::reshape(experts, {rows * choices, 1}), up.value);
  return scaled(graph::reshape(made, {rows, choices, out}), up.factor);
}

// Returns the slot of each row of x, for a slot of each row of the batch.
graph::Value slots_of_rows(graph::Value choice, int64_t rows) {
  const int64_t batch = choice.dim(0);
  const graph::Value column = graph::reshape(choice, {batch, 1});
  return graph::reshape(graph::broadcast(column, Shape{batch, rows / batch}), {rows});
}

// Adapters of one rank are two products with matrices by row. Other rows get zeros.
graph::Value low_rank_by_row(const Linear& linear, graph::Value x) {
  graph::Graph& graph = *x.graph;
  const int64_t in = x.dim(-1), rows = x.shape().count() / in;
  const graph::Value flat = graph::reshape(x, {rows, in}),
                     slots = slots_of_rows(linear.choice, rows);
  std::map<int64_t, std::vector<const Adapter*>> by_rank;
  for (const Adapter& adapter : linear.adapters)
    by_rank[adapter.tensor(kUpSuffix).value.dim(1)].push_back(&adapter);
  graph::Value sum;
  for (const auto& [rank, adapters] : by_rank) {
    const auto count = static_cast<size_t>(linear.slots);
    std::vector<int32_t> places(count, -1); // by slot
    std::vector<float> factors(count, 1.0f);
    std::vector<graph::Value> down, up;
    for (const Adapter* adapter : adapters) {
      const NamedParam last = adapter->tensor(kUpSuffix);
      places[static_cast<size_t>(adapter->slot)] = static_cast<int32_t>(down.size());
      factors[static_cast<size_t>(adapter->slot)] = last.factor;
      down.push_back(adapter->tensor(kDownSuffix).value);
      up.push_back(last.value);
    }
    const graph::Value place =
        graph::take(graph::constant(graph, Tensor::from(Shape{linear.slots}, places)), slots);
    const graph::Value factor =
        graph::take(graph::constant(graph, Tensor::from(Shape{linear.slots}, factors)), slots);
    const graph::Value product =
        graph::linear_by_row(graph::linear_by_row(flat, place, down), place, up);
    const graph::Value made = graph::multiply(product, graph::reshape(factor, {rows, 1}));
    sum = sum.defined() ? graph::add(sum, made) : made;
  }
  return graph::reshape(sum, x.shape().with_dim(-1, sum.dim(1)));
}

constexpr AdapterTensor kLowRankTensors[] = {kDownTensor, up_tensor(true)};

} // namespace

std::optional<Shape> low_rank_down_shape(const AdaptedMatrix& matrix) {
  return Shape{matrix.form.rank, matrix.in};
}

std::optional<Shape> low_rank_up_shape(const AdaptedMatrix& matrix) {
  return Shape{matrix.out, matrix.form.rank};
}

// Returns first values of A: uniform in +-1/sqrt(in), keyed by name and element.
Tensor first_low_rank_down(const FirstValues& of) {
  Tensor values(DType::f32, of.shape);
  const double bound = 1.0 / std::sqrt(static_cast<double>(of.shape[-1]));
  const Key key = stream_key(of.seed, Stream::init, name_number(of.name), 0);
  const auto out = values.mutable_as<float>();
  for (size_t i = 0; i < out.size(); ++i) {
    const double uniform = (static_cast<double>(random_bits_at(key, i) >> 8) + 0.5) / 16777216.0;
    out[i] = static_cast<float>(bound * (2 * uniform - 1));
  }
  return values;
}

std::vector<OptionSpec> low_rank_options() {
  return {
      option_i64("rank", 16, 1, 65536,
                 "Columns of B and rows of A; a matrix (out, in) gets rank x (out + in) numbers."),
      option_f64("alpha", 0, 0, 1e9,
                 "The product B A is multiplied by alpha / rank; 0: twice the rank."),
      option_bool("rslora", false, "The product is multiplied by alpha / sqrt(rank)."),
      option_f64("dropout", 0, 0, kMostDropout,
                 "Part of the inputs of A that a training step sets to 0; the others are divided "
                 "by 1 - dropout. Evaluation and decoding drop nothing."),
      option_list("rank_pattern", {},
                  "Ranks of some modules, PATTERN=RANK as in q_proj=4: a regular expression for "
                  "the end of a module's name, of which the first that matches counts."),
      option_list("alpha_pattern", {}, "Alphas of some modules, PATTERN=ALPHA.")};
}

void read_low_rank_options(const Options& options, AdapterSettings& settings) {
  settings.rank = options.i64("rank");
  settings.alpha = options.f64("alpha");
  if (settings.alpha == 0) settings.alpha = 2 * static_cast<double>(settings.rank);
  settings.is_stabilised = options.boolean("rslora");
  settings.dropout = options.f64("dropout");
  settings.rank_pattern = listed_pairs<int64_t>(options, "rank_pattern", 1);
  settings.alpha_pattern = listed_pairs<double>(options, "alpha_pattern", 0);
}

std::unique_ptr<AdapterForms> low_rank_forms(const AdapterSettings& settings,
                                             const std::string& what) {
  return std::make_unique<AdapterRanks>(settings, what);
}

graph::Value low_rank_product(const AdapterPass& pass, graph::Value x) {
  const NamedParam down = pass.adapter.tensor(kDownSuffix), up = pass.adapter.tensor(kUpSuffix);
  return scaled(graph::linear(graph::linear(x, down.value), up.value), up.factor);
}

void add_low_rank_product(const AdapterNumbers& numbers, Tensor& base) {
  const AdapterNumbers::Entry &down = numbers.at(kDownSuffix), &up = numbers.at(kUpSuffix);
  const int64_t out = base.shape()[0], in = base.shape()[1], rank = down.values.shape()[0];
  float* w = base.mutable_as<float>().data();
  const float *a = down.values.as<float>().data(), *b = up.values.as<float>().data();
  for (int64_t o = 0; o < out; ++o) {
    check_task(numbers.task);
    for (int64_t r = 0; r < rank; ++r) {
      const float weight = up.factor * b[o * rank + r];
      for (int64_t i = 0; i < in; ++i) w[o * in + i] += weight * a[r * in + i];
    }
  }
}

void read_lora_config(const ConfigReader& reader, AdapterSettings& settings) {
  reader.require_text("bias", {"none"});
  check_lora_start(reader);
  settings.rank = reader.integer("r", 1, kMostLoraRank, 8);
  settings.alpha = reader.number("lora_alpha", 0, 1e9, 8);
  settings.is_stabilised = reader.flag("use_rslora", false);
  settings.dropout = reader.number("lora_dropout", 0, kMostDropout, 0);
  settings.rank_pattern = pattern_pairs<int64_t>(reader, "rank_pattern", 1);
  settings.alpha_pattern = pattern_pairs<double>(reader, "alpha_pattern", 0);
}

void write_lora_config(const AdapterSettings& settings, Json& config) {
  config["r"] = settings.rank;
  config["lora_alpha"] = settings.alpha;
  config["lora_dropout"] = settings.dropout;
  config["use_rslora"] = settings.is_stabilised;
  config["use_dora"] = false;
  config["rank_pattern"] = object_of(settings.rank_pattern);
  config["alpha_pattern"] = object_of(settings.alpha_pattern);
  config["bias"] = "none";
}

constinit const AdapterKind adapter_files::kLowRank = {
    .name = "lora",
    .title = "LoRA",
    .flag = nullptr,
    .leave_out = "choose another kind",
    .tensors = kLowRankTensors,
    .options = low_rank_options,
    .read_options = read_low_rank_options,
    .forms = low_rank_forms,
    .complete = nullptr,
    .describe = nullptr,
    .graph = {.output =
                  [](const AdapterPass& pass) {
                    return low_rank_product(pass, adapter_input(pass.linear, pass.adapter, pass.x));
                  },
              .by_row = low_rank_by_row,
              .experts = low_rank_of_experts},
    .merge = {.weight = [](const AdapterNumbers& numbers, const Tensor&,
                           Tensor& made) { add_low_rank_product(numbers, made); }},
    .peft = {.type = "LORA",
             .flag = nullptr,
             .keys = kLoraKeys,
             .read = read_lora_config,
             .write = write_lora_config,
             .shape_hint = kLoraShapeHint}};

} // namespace dllm::model
