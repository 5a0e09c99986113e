// (IA)3 (Liu et al. 2022), as in PEFT: a vector l multiplies the outputs of a matrix and its bias.
// For a matrix of the feedforward network l multiplies the inputs. l begins as ones. With a scale s
// the factor is 1 + s (l - 1), so that 0 turns the adapter off.

#include "base/error.h"
#include "graph/ops.h"
#include "model/adapters/kinds/kind_table.h"
#include "text/tokenizer/regex.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::model {
namespace {

constexpr std::string_view kOutputGain = ".ia3_out", kInputGain = ".ia3_in"; // suffixes of stacks
constexpr std::string_view kGainEnding = ".ia3_l";
constexpr const char* kFeedforward = "feedforward";
constexpr int kMultipliesInputs = 1; // AdapterForm::variant

// The keys of IA3Config of PEFT 0.21.0 after those of PeftConfig, in their order.
constexpr AdapterKey kIa3Keys[] = {
    used_key("target_modules"),     used_key("exclude_modules"), used_key("feedforward_modules"),
    harmless_key("fan_in_fan_out"), used_key("modules_to_save"), harmless_key("init_ia3_weights"),
};

bool names_module(const std::string& word, const AdapterModule& module) {
  if (word.find('*') != std::string::npos) return name_matches(word, module.name);
  return word == module.own || word == module.name || module.name.ends_with("." + word);
}

// Chooses the matrices whose inputs are multiplied.
class Ia3Forms : public AdapterForms {
public:
  Ia3Forms(const AdapterSettings& settings, const std::string& what) {
    const auto found = settings.own.find(kFeedforward);
    is_default_ = found == settings.own.end();
    if (is_default_) {
      words_ = {"down"};
    } else if (const auto* pattern = std::get_if<std::string>(&found->second)) {
      pattern_.emplace(fmt::format("^(?:{})\\z", *pattern), what + ": feedforward_modules");
    } else {
      words_ = std::get<std::vector<std::string>>(found->second);
    }
  }

  AdapterForm form(const AdapterModule& module) const override {
    return {.variant = multiplies_inputs(module) ? kMultipliesInputs : 0};
  }

  std::string unmatched(const std::vector<AdapterModule>& modules) const override {
    for (const std::string& word : words_) {
      const bool is_used = is_default_ || std::ranges::any_of(modules, [&](const auto& module) {
                             return names_module(word, module);
                           });
      if (!is_used) return fmt::format("{} \"{}\"", kFeedforward, word);
    }
    return {};
  }

private:
  bool multiplies_inputs(const AdapterModule& module) const {
    if (pattern_) {
      text::Regex::Search search(*pattern_, module.name);
      size_t begin, end;
      return search.next(begin, end);
    }
    return std::ranges::any_of(words_,
                               [&](const std::string& word) { return names_module(word, module); });
  }

  std::vector<std::string> words_;
  std::optional<text::Regex> pattern_;
  bool is_default_;
};

Tensor ones(const FirstValues& of) {
  Tensor values(DType::f32, of.shape);
  std::ranges::fill(values.mutable_as<float>(), 1.0f);
  return values;
}

constexpr AdapterTensor kIa3Tensors[] = {
    {.suffix = kOutputGain,
     .ending = kGainEnding,
     .shape = [](const AdaptedMatrix& matrix) -> std::optional<Shape> {
       if (matrix.form.variant == kMultipliesInputs) return std::nullopt;
       return Shape{matrix.out, 1};
     },
     .first = ones,
     .has_scale = true,
     .decays = false},
    {.suffix = kInputGain,
     .ending = kGainEnding,
     .shape = [](const AdaptedMatrix& matrix) -> std::optional<Shape> {
       if (matrix.form.variant != kMultipliesInputs) return std::nullopt;
       return Shape{1, matrix.in};
     },
     .is_of_inputs = true,
     .first = ones,
     .has_scale = true,
     .decays = false}};

// Returns x s (l - 1); undefined when the matrix has no such vector.
graph::Value gained(const AdapterPass& pass, std::string_view suffix, graph::Value x) {
  const NamedParam gain = pass.adapter.tensor(suffix);
  if (!gain.value.defined()) return {};
  const graph::Value l = graph::reshape(gain.value, {gain.value.shape().count()});
  const graph::Value more = graph::subtract(l, graph::scalar(*x.graph, 1.0f));
  return graph::multiply(x, scaled(more, gain.factor));
}

// Adds made += s (l - 1) W.
void add_gain(const AdapterNumbers& numbers, const Tensor& weight, Tensor& made) {
  const AdapterNumbers::Entry *rows = numbers.find(kOutputGain),
                              *columns = numbers.find(kInputGain);
  const AdapterNumbers::Entry& gain = rows != nullptr ? *rows : *columns;
  const int64_t out = weight.shape()[0], in = weight.shape()[1];
  const float *l = gain.values.as<float>().data(), *w = weight.as<float>().data();
  float* to = made.mutable_as<float>().data();
  for (int64_t o = 0; o < out; ++o) {
    check_task(numbers.task);
    for (int64_t i = 0; i < in; ++i)
      to[o * in + i] += gain.factor * (l[rows != nullptr ? o : i] - 1) * w[o * in + i];
  }
}

void add_bias_gain(const AdapterNumbers& numbers, const Tensor& bias, Tensor& made) {
  const AdapterNumbers::Entry* gain = numbers.find(kOutputGain);
  if (gain == nullptr) return;
  for (size_t o = 0; o < made.as<float>().size(); ++o)
    made.mutable_as<float>()[o] +=
        gain->factor * (gain->values.as<float>()[o] - 1) * bias.as<float>()[o];
}

void clear_ranks(AdapterSettings& settings) {
  settings.rank = 0;
  settings.alpha = settings.dropout = 0;
}

void read_ia3_config(const ConfigReader& reader, AdapterSettings& settings) {
  constexpr const char* kKey = "feedforward_modules";
  clear_ranks(settings);
  std::vector<std::string> words;
  if (reader.has(kKey)) {
    const Json& value = reader.object().at(kKey);
    if (value.is_string()) {
      settings.own[kFeedforward] = value.get<std::string>();
      return;
    }
    const bool fits = value.is_array() &&
                      std::ranges::all_of(value, [](const Json& word) { return word.is_string(); });
    if (!fits) reader.bad(kKey, "a list of words, or one word");
    // PEFT compares ends of names, without a dot before them.
    for (const Json& word : value) words.push_back("*" + word.get<std::string>());
  }
  settings.own[kFeedforward] = std::move(words);
}

std::vector<std::string> feedforward_of(const AdapterSettings& settings) {
  return std::get<std::vector<std::string>>(settings.own.at(kFeedforward));
}

} // namespace

constinit const AdapterKind adapter_files::kIa3 = {
    .name = "ia3",
    .title = "(IA)3",
    .flag = nullptr,
    .leave_out = "choose kind lora",
    .tensors = kIa3Tensors,
    .options =
        [] {
          return std::vector<OptionSpec>{
              option_list(kFeedforward, {"down"},
                          "(IA)3: modules whose inputs are multiplied, as for targets. The outputs "
                          "of other modules are multiplied.")};
        },
    .read_options =
        [](const Options& options, AdapterSettings& settings) {
          clear_ranks(settings);
          if (options.is_set(kFeedforward)) settings.own[kFeedforward] = options.list(kFeedforward);
        },
    .forms = [](const AdapterSettings& settings, const std::string& what)
        -> std::unique_ptr<AdapterForms> { return std::make_unique<Ia3Forms>(settings, what); },
    .complete =
        [](AdapterSettings& settings, std::span<const AdapterWord> words) {
          clear_ranks(settings);
          std::vector<std::string> made;
          for (const AdapterWord& word : words) {
            if (word.variant == kMultipliesInputs) made.push_back(word.text);
          }
          settings.own[kFeedforward] = std::move(made);
        },
    .describe = [](const AdapterSettings& settings,
                   Json& row) { row[kFeedforward] = feedforward_of(settings); },
    .graph = {.input = [](const AdapterPass& pass) { return gained(pass, kInputGain, pass.x); },
              .output =
                  [](const AdapterPass& pass) { return gained(pass, kOutputGain, pass.base); },
              .bias = [](const AdapterPass& pass,
                         graph::Value bias) { return gained(pass, kOutputGain, bias); },
              .reads_base =
                  [](const Adapter& adapter) {
                    return adapter.tensor(kOutputGain).value.defined();
                  }},
    .merge = {.weight = add_gain, .bias = add_bias_gain, .reads_weights = "its vectors multiply"},
    .peft = {.type = "IA3",
             .flag = nullptr,
             .keys = kIa3Keys,
             .read = read_ia3_config,
             .write =
                 [](const AdapterSettings& settings, Json& config) {
                   config["feedforward_modules"] = feedforward_of(settings);
                   config["init_ia3_weights"] = true;
                 },
             .shape_hint = "feedforward_modules of adapter_config.json names the modules with a "
                           "vector (1, in), others have (out, 1)"}};

} // namespace dllm::model
