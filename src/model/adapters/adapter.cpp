#include "model/adapters/adapter.h"

#include "base/error.h"
#include "base/named_table.h"
#include "base/number.h"
#include "base/random.h"
#include "model/adapters/adapter_choice.h"
#include "model/params/partition.h"
#include "model/params/stack_part.h"

#include <nlohmann/json.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace dllm::model {
namespace {

// "x.q_proj.weight" -> "x.q_proj.lora_A.weight"
std::string half_name(const std::string& weight, const char* half) {
  const size_t cut = weight.rfind('.');
  return weight.substr(0, cut) + "." + half + weight.substr(cut);
}

// The stack of the magnitudes of DoRA, one number for each row of a matrix.
ParamSpec magnitude_of(const std::string& part, const ParamSpec& base) {
  const int64_t rows = base.element.dim(0);
  ParamSpec spec = base;
  spec.part = part;
  spec.name = base.name + ".lora_m";
  spec.role = ParamRole::adapter;
  spec.element = Shape{rows};
  spec.partition = adapter_partition(base.partition, false);
  const std::string& weight = base.pieces[0].logical;
  spec.pieces = {{weight.substr(0, weight.rfind('.')) + std::string(kMagnitude), rows, false}};
  return spec;
}

// The stack of one half of an adapter; each matrix has rows x columns numbers.
ParamSpec half_of(const std::string& part, const ParamSpec& base, const char* suffix,
                  const char* half, int64_t rows, int64_t columns) {
  ParamSpec spec = base;
  const bool experts = base.element.rank() == 3;
  spec.part = part;
  spec.name = base.name + suffix;
  spec.role = ParamRole::adapter;
  spec.element = experts ? Shape{base.element[0], rows, columns} : Shape{rows, columns};
  spec.partition = adapter_partition(base.partition, std::string_view(half) == "lora_A");
  spec.pieces.clear();
  for (const ParamPiece& piece : base.pieces) {
    spec.pieces.push_back({half_name(piece.logical, half), experts ? 1 : rows, false});
    if (!experts) break; // a chosen stack has one piece
  }
  return spec;
}

// Returns first values of A: uniform in +-1/sqrt(columns), keyed by name and element.
Tensor first_down(const Shape& shape, const std::string& name, uint64_t seed) {
  Tensor values(DType::f32, shape);
  const double bound = 1.0 / std::sqrt(static_cast<double>(shape[-1]));
  const Key key = stream_key(seed, Stream::init, name_number(name), 0);
  const auto out = values.mutable_as<float>();
  for (size_t i = 0; i < out.size(); ++i) {
    const double uniform = (static_cast<double>(random_bits_at(key, i) >> 8) + 0.5) / 16777216.0;
    out[i] = static_cast<float>(bound * (2 * uniform - 1));
  }
  return values;
}

// First values with which a new adapter changes nothing: B is zero, and a magnitude is the norm of
// its row.
enum class FirstValues { uniform, zero, given };

struct Half {
  ParamSpec spec;
  FirstValues first;
  std::map<std::string, Tensor> given = {}; // by names of files
};

// Returns the tensors of a stack as f32, by their names.
std::map<std::string, Tensor> copies_of(const ParamStore& params, size_t index, const Task* task) {
  std::map<std::string, Tensor> copies;
  const ParamSpec& base = params.physical()[index].spec;
  const Tensor values = params.widened(index, task);
  for (int64_t layer = 0; layer < base.copies(); ++layer) {
    for (size_t piece = 0; piece < base.pieces.size(); ++piece) {
      check_task(task);
      copies[base.file_name(base.pieces[piece], layer)] =
          read_piece(base, piece, layer, values).to(DType::f32).clone();
    }
  }
  return copies;
}

// Returns the norms of the rows of a stack's matrices, by the names of their magnitudes.
std::map<std::string, Tensor> row_norms(const ParamStore& params, size_t index,
                                        const ParamSpec& magnitude, const Task* task) {
  std::map<std::string, Tensor> norms;
  const ParamSpec& base = params.physical()[index].spec;
  const Tensor weights = params.widened(index, task);
  const int64_t out = base.element.dim(0), in = base.element.dim(1);
  for (int64_t layer = 0; layer < base.copies(); ++layer) {
    check_task(task);
    const float* row = weights.as<float>().data() + layer * out * in;
    Tensor made(DType::f32, {out});
    for (float& norm : made.mutable_as<float>()) {
      double sum = 0;
      for (const float* end = row + in; row != end; ++row) sum += static_cast<double>(*row) * *row;
      norm = static_cast<float>(std::sqrt(sum));
    }
    norms[magnitude.file_name(magnitude.pieces[0], layer)] = made;
  }
  return norms;
}

// Makes A and B of each chosen stack, the magnitudes of DoRA, and the copies of modules.
// with_values: magnitudes and copies get first values. REQUIRES: all layers of a stack have one
// rank.
std::vector<Half> halves_of(const ParamStore& params, const std::string& part,
                            const std::vector<AdapterChoice::Stack>& stacks, bool has_magnitude,
                            bool with_values, const Task* task) {
  std::vector<Half> halves;
  for (const AdapterChoice::Stack& stack : stacks) {
    const ParamSpec& base = params.physical()[stack.index].spec;
    const AdapterChoice::LayerRank& own = stack.layers.front();
    if (own.rank == AdapterChoice::kWhole) {
      Half copy{base, FirstValues::given};
      copy.spec.part = part;
      copy.spec.role = ParamRole::adapter;
      if (with_values) copy.given = copies_of(params, stack.index, task);
      halves.push_back(std::move(copy));
      continue;
    }
    const int64_t out = base.element.dim(-2), in = base.element.dim(-1);
    halves.push_back(
        {half_of(part, base, ".lora_a", "lora_A", own.rank, in), FirstValues::uniform});
    halves.push_back({half_of(part, base, ".lora_b", "lora_B", out, own.rank), FirstValues::zero});
    halves.back().spec.factor = static_cast<float>(own.factor);
    if (!has_magnitude) continue;
    Half made{magnitude_of(part, base), FirstValues::given};
    if (with_values) made.given = row_norms(params, stack.index, made.spec, task);
    halves.push_back(std::move(made));
  }
  return halves;
}

void fill_half(ParamForm& form, const StackPart& part, const Half& half, uint64_t seed,
               const ReadAdapter& read, const Task* task) {
  for (int64_t layer = 0; layer < part.spec.copies(); ++layer) {
    for (size_t piece = 0; piece < part.spec.pieces.size(); ++piece) {
      check_task(task);
      const std::string name = part.spec.file_name(part.spec.pieces[piece], layer);
      const Shape& whole = part.whole[piece];
      const Box& box = part.boxes[piece];
      Tensor values = read ? read(name, whole, box) : Tensor();
      // The form is already filled with zeros.
      if (!values.defined() && half.first == FirstValues::zero) continue;
      const bool is_given = half.first == FirstValues::given;
      if (!values.defined() && is_given && !half.given.contains(name)) {
        fail_with_hint("the file was cut or changed: save the adapter again", Code::data_loss,
                       "the adapter has no numbers for {}", name);
      }
      if (!values.defined())
        values = part_of(is_given ? half.given.at(name) : first_down(whole, name, seed), box);
      form.put(part.spec, piece, layer, values, task);
    }
  }
}

} // namespace

const Schema& adapter_schema() {
  static const Schema schema(
      "adapter",
      {option_i64("rank", 16, 1, 65536,
                  "Columns of B and rows of A; a matrix (out, in) gets rank x (out + in) numbers."),
       option_f64("alpha", 0, 0, 1e9,
                  "The product B A is multiplied by alpha / rank; 0: twice the rank."),
       option_bool("rslora", false, "The product is multiplied by alpha / sqrt(rank)."),
       option_bool("dora", false,
                   "DoRA: each row of the sum of a matrix and its product gets a length that is "
                   "trained too. Every pass computes the norms of the rows again, until the "
                   "adapter is merged."),
       option_f64("dropout", 0, 0, kMostDropout,
                  "Part of the inputs of A that a training step sets to 0; the others are divided "
                  "by 1 - dropout. Evaluation and decoding drop nothing."),
       option_list(
           "targets", {"all-linear"},
           "Modules with an adapter: ends of their names (q_proj), names of dllm (q k v o "
           "gate up down), texts with *, or all-linear: every matrix of a layer, except for "
           "routers and gates."),
       option_list("exclude", {}, "Modules without one, as for targets."),
       option_list("layers", {}, "Numbers and ranges of layers, 0-11; empty: all layers.",
                   ListOf::texts_and_numbers),
       option_list(
           "rank_pattern", {},
           "Ranks of some modules, PATTERN=RANK as in q_proj=4: a regular expression for the "
           "end of a module's name, of which the first that matches counts."),
       option_list("alpha_pattern", {}, "Alphas of some modules, PATTERN=ALPHA."),
       option_list("modules_to_save", {},
                   "Modules that are trained whole, as copies of the adapter's own: ends of their "
                   "names, such as embed_tokens, lm_head and norm."),
       option_i64("seed", 0, 0, int64_t{1} << 53, "Seed of the first values of A.")});
  return schema;
}

namespace {

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

} // namespace

AdapterOptions adapter_options(const std::string& name, const Options& options) {
  AdapterOptions made;
  made.name = name;
  made.targets = AdapterTargets(options);
  made.settings.rank = options.i64("rank");
  made.settings.alpha = options.f64("alpha");
  if (made.settings.alpha == 0) made.settings.alpha = 2 * static_cast<double>(made.settings.rank);
  made.settings.is_stabilised = options.boolean("rslora");
  made.settings.has_magnitude = options.boolean("dora");
  made.settings.dropout = options.f64("dropout");
  made.settings.rank_pattern = listed_pairs<int64_t>(options, "rank_pattern", 1);
  made.settings.alpha_pattern = listed_pairs<double>(options, "alpha_pattern", 0);
  made.settings.modules_to_save = options.list("modules_to_save");
  made.seed = static_cast<uint64_t>(options.i64("seed"));
  return made;
}

namespace {

bool is_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

} // namespace

std::string adapter_part(std::string_view name) {
  return std::string(kAdapterPart) + std::string(name);
}

void check_adapter_name(const std::string& name) {
  if (is_name(name)) return;
  fail_with_hint("use letters, digits, _ and -", Code::invalid_argument,
                 "'{}' is not a name for an adapter", name);
}

std::string adapter_name(std::string_view part) {
  return std::string(part.substr(std::min(part.size(), kAdapterPart.size())));
}

std::shared_ptr<const Part> find_adapter(const Model& model, const std::string& name) {
  const std::string part = adapter_part(name);
  if (model.parts().has(part)) return model.parts().find(part);
  std::vector<std::string> known;
  for (const std::string& other : model.parts().names()) {
    if (other.starts_with(kAdapterPart)) known.push_back(adapter_name(other));
  }
  fail_unnamed({"adapter", "of the model"}, name, known);
}

void add_adapter(Model& model, const AdapterOptions& options, const ReadAdapter& read,
                 const Task* task) {
  ParamStore& params = model.params();
  const AdapterRanks ranks(options.settings, "adapter " + options.name);
  Part part;
  part.name = adapter_part(options.name);
  check_adapter_name(options.name);
  if (model.parts().has(part.name)) {
    fail_with_hint("choose another name, or remove that adapter", Code::already_exists,
                   "the model has an adapter named {} already", options.name);
  }
  part.kind = PartKind::adapter;
  part.settings = options.settings;
  const AdapterChoice choice(params, options, ranks, model.config().tie_embeddings);
  choice.check_words(model.config().layers);
  if (read == nullptr) choice.check_patterns(); // a file of PEFT may have patterns without a use
  part.settings.targets = choice.words();
  part.settings.modules_to_save = choice.saved_modules();
  const std::set<int64_t> borders = choice.borders();
  Model::Backup before = model.backup();
  try {
    if (!borders.empty()) params.cut_at({{kBasePart, borders}});
    const std::vector<Half> halves = halves_of(
        params, part.name, choice.stacks(), options.settings.has_magnitude, read == nullptr, task);
    model.add_part(std::move(part), [&] {
      graph::run_on_all(model.engine(), [&] { // each process makes its part
        for (const Half& half : halves) {
          const auto fill = [&](ParamForm& form, const StackPart& stack) {
            fill_half(form, stack, half, options.seed, read, task);
          };
          fill_stack(params, params.reserve(half.spec, weight_format(DType::f32)), fill, task);
        }
      });
    });
  } catch (...) {
    model.restore(std::move(before));
    throw;
  }
}

void set_adapter_scale(Model& model, const std::string& name, double scale) {
  const std::shared_ptr<const Part> part = find_adapter(model, name);
  if (!std::isfinite(scale) || std::abs(scale) > 1e9)
    fail(Code::invalid_argument, "the scale of an adapter is {}, expected -1e9 to 1e9", scale);
  check_weight(*part, scale);
  const AdapterRanks ranks(part->settings, part->name);
  // DoRA multiplies the change of the whole product, and not B A inside of the norm.
  const bool is_dora = part->settings.has_magnitude;
  model.scale_part(part->name, static_cast<float>(scale), [&](const ParamSpec& spec) {
    const std::string matrix = spec.file_name(spec.pieces[0], 0);
    if (matrix.ends_with(kMagnitude)) return static_cast<float>(scale);
    if (!is_low_rank(spec.name)) return static_cast<float>(scale);
    const double own = ranks.factor(matrix.substr(0, matrix.rfind(".lora_")));
    return static_cast<float>(is_dora ? own : scale * own);
  });
}

void check_weight(const Part& adapter, double weight) {
  if (adapter.settings.modules_to_save.empty() || weight == 0 || weight == 1) return;
  fail_with_hint("use 0 or 1", Code::invalid_argument,
                 "{} has its own {}, so its weight must be 0 or 1, not {}",
                 adapter_name(adapter.name), adapter.settings.modules_to_save.front(), weight);
}

void remove_adapter(Model& model, const std::string& name) {
  model.drop_part(find_adapter(model, name)->name);
}

bool has_dropout(const Model& model) {
  const std::vector<std::string> parts = model.parts().adapters();
  return std::ranges::any_of(parts, [&](const std::string& part) {
    return model.parts().find(part)->settings.dropout > 0;
  });
}

Json list_adapters(const Model& model) {
  Json list = Json::array();
  for (const std::string& name : model.parts().names()) {
    const std::shared_ptr<const Part> part = model.parts().find(name);
    if (part->kind != PartKind::adapter) continue;
    int64_t matrices = 0, count = 0;
    for (const ParamSpec& spec : model.params().specs(name)) {
      count += spec.shape().count();
      if (spec.name.ends_with(".lora_a")) matrices += spec.copies() * std::ssize(spec.pieces);
    }
    list.push_back({{"name", adapter_name(name)},
                    {"rank", part->settings.rank},
                    {"alpha", part->settings.alpha},
                    {"rslora", part->settings.is_stabilised},
                    {"dora", part->settings.has_magnitude},
                    {"dropout", part->settings.dropout},
                    {"modules_to_save", part->settings.modules_to_save},
                    {"scale", part->scale},
                    {"modules", matrices},
                    {"params", count},
                    {"bytes", count * dtype_size(DType::f32)}});
  }
  return list;
}

} // namespace dllm::model
