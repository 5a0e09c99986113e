#include "model/adapters/adapter.h"

#include "base/error.h"
#include "base/named_table.h"
#include "model/adapters/adapter_choice.h"
#include "model/adapters/kinds/adapter_kinds.h"
#include "model/params/partition.h"
#include "model/params/stack_part.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dllm::model {
namespace {

// A stack of an adapter, with its first values.
struct AddedStack {
  ParamSpec spec;
  // Returns the first values of a tensor that `given` lacks. Null: the stack has zeros, or all its
  // values are given.
  Tensor (*first)(const FirstValues& values) = nullptr;
  bool is_given = false;
  std::map<std::string, Tensor> given = {}; // by names of files
};

// Returns the stack of a tensor of a kind, for a stack of the base. Each matrix has `shape`
// numbers.
ParamSpec spec_of(const std::string& part, const ParamSpec& base, const AdapterTensor& tensor,
                  const Shape& shape, double factor) {
  ParamSpec spec = base;
  const bool experts = base.element.rank() == 3;
  spec.part = part;
  spec.name = base.name + std::string(tensor.suffix);
  spec.role = ParamRole::adapter;
  spec.element = experts ? shape.with_front(base.element[0]) : shape;
  spec.partition = adapter_partition(base.partition, tensor.is_of_inputs);
  spec.factor = static_cast<float>(factor);
  spec.pieces.clear();
  for (const ParamPiece& piece : base.pieces) {
    const std::string name =
        piece.logical.substr(0, piece.logical.rfind('.')) + std::string(tensor.ending);
    spec.pieces.push_back({name, experts ? 1 : shape.dim(0), false});
    if (!experts) break; // a chosen stack has one piece
  }
  return spec;
}

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

// Returns the first values of a tensor that reads the matrices of a stack, by the names of files.
std::map<std::string, Tensor> values_of_matrices(const ParamStore& params, size_t index,
                                                 const ParamSpec& added,
                                                 const AdapterTensor& tensor, uint64_t seed,
                                                 const Task* task) {
  std::map<std::string, Tensor> values;
  const ParamSpec& base = params.physical()[index].spec;
  const Tensor weights = params.widened(index, task);
  const int64_t out = base.element.dim(-2), in = base.element.dim(-1);
  const float* matrix = weights.as<float>().data();
  for (int64_t layer = 0; layer < base.copies(); ++layer) {
    for (const ParamPiece& piece : added.pieces) {
      check_task(task);
      const std::string name = added.file_name(piece, layer);
      const Shape shape = added.logical_shape(piece);
      values[name] = tensor.first({shape, name, seed, matrix, out, in});
      matrix += out * in;
    }
  }
  return values;
}

AddedStack copied_stack(const ParamStore& params, const std::string& part, size_t index,
                        bool with_values, const Task* task) {
  AddedStack copy{.spec = params.physical()[index].spec, .is_given = true};
  copy.spec.part = part;
  copy.spec.role = ParamRole::adapter;
  if (with_values) copy.given = copies_of(params, index, task);
  return copy;
}

// Makes the tensors of the kind for each chosen stack, and the copies of modules. with_values:
// values that are read from the base are made. REQUIRES: all layers of a stack have one form.
std::vector<AddedStack> added_stacks(const ParamStore& params, const std::string& part,
                                     const std::vector<AdapterChoice::Stack>& stacks,
                                     const AdapterKind& kind, uint64_t seed, bool with_values,
                                     const Task* task) {
  std::vector<AddedStack> added;
  for (const AdapterChoice::Stack& stack : stacks) {
    const ParamSpec& base = params.physical()[stack.index].spec;
    const AdapterChoice::LayerForm& own = stack.layers.front();
    if (own.use == AdapterChoice::Use::copied) {
      added.push_back(copied_stack(params, part, stack.index, with_values, task));
      continue;
    }
    const AdaptedMatrix matrix{own.form, base.element.dim(-2), base.element.dim(-1)};
    for (const AdapterTensor& tensor : kind.tensors) {
      const std::optional<Shape> shape = tensor.shape(matrix);
      if (!shape) continue;
      const double factor = tensor.has_factor ? own.form.factor : 1;
      AddedStack made{.spec = spec_of(part, base, tensor, *shape, factor), .first = tensor.first};
      if (tensor.reads_matrix) {
        made.is_given = true;
        if (with_values)
          made.given = values_of_matrices(params, stack.index, made.spec, tensor, seed, task);
      }
      added.push_back(std::move(made));
    }
  }
  return added;
}

void fill_added(ParamForm& form, const StackPart& part, const AddedStack& stack, uint64_t seed,
                const ReadAdapter& read, const Task* task) {
  for (int64_t layer = 0; layer < part.spec.copies(); ++layer) {
    for (size_t piece = 0; piece < part.spec.pieces.size(); ++piece) {
      check_task(task);
      const std::string name = part.spec.file_name(part.spec.pieces[piece], layer);
      const Shape& whole = part.whole[piece];
      const Box& box = part.boxes[piece];
      Tensor values = read ? read(name, whole, box) : Tensor();
      // The form is already filled with zeros.
      if (!values.defined() && !stack.is_given && stack.first == nullptr) continue;
      if (!values.defined() && stack.is_given && !stack.given.contains(name)) {
        fail_with_hint("the file was cut or changed: save the adapter again", Code::data_loss,
                       "the adapter has no numbers for {}", name);
      }
      if (!values.defined()) {
        values = part_of(stack.is_given ? stack.given.at(name)
                                        : stack.first({whole, name, seed, nullptr, 0, 0}),
                         box);
      }
      form.put(part.spec, piece, layer, values, task);
    }
  }
}

std::vector<OptionSpec> all_options() {
  std::vector<std::string> names;
  for (const AdapterKind* kind : adapter_kinds()) names.emplace_back(kind->name);
  std::vector<OptionSpec> options = {
      option_choice("kind", "lora", names,
                    "What the adapter adds to a matrix. An option of one kind is refused for "
                    "another one.")};
  for (OptionSpec& spec : adapter_kind_options()) options.push_back(std::move(spec));
  for (OptionSpec& spec : std::vector<OptionSpec>{
           option_list(
               "targets", {"all-linear"},
               "Modules with an adapter: ends of their names (q_proj), names of dllm (q k v o "
               "gate up down), texts with *, or all-linear: every matrix of a layer, except for "
               "routers and gates."),
           option_list("exclude", {}, "Modules without one, as for targets."),
           option_list("layers", {}, "Numbers and ranges of layers, 0-11; empty: all layers.",
                       ListOf::texts_and_numbers),
           option_list("modules_to_save", {},
                       "Modules that are trained whole, as copies of the adapter's own: ends of "
                       "their names, such as embed_tokens, lm_head and norm."),
           option_i64("seed", 0, 0, int64_t{1} << 53, "Seed of the first values.")})
    options.push_back(std::move(spec));
  return options;
}

} // namespace

const Schema& adapter_schema() {
  static const Schema schema("adapter", all_options());
  return schema;
}

AdapterOptions adapter_options(const std::string& name, const Options& options) {
  AdapterOptions made;
  made.name = name;
  made.targets = AdapterTargets(options);
  const AdapterKind& kind = chosen_adapter_kind(options);
  made.settings.kind = kind.name;
  kind.read_options(options, made.settings);
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
  const AdapterKind& kind = find_adapter_kind(options.settings.kind);
  const auto forms = kind.forms(options.settings, "adapter " + options.name);
  Part part;
  part.name = adapter_part(options.name);
  check_adapter_name(options.name);
  if (model.parts().has(part.name)) {
    fail_with_hint("choose another name, or remove that adapter", Code::already_exists,
                   "the model has an adapter named {} already", options.name);
  }
  part.kind = PartKind::adapter;
  part.settings = options.settings;
  const std::string head = tied_head_of(model.config());
  const AdapterChoice choice(params, options, kind, *forms, head);
  choice.check_words(model.config().layers);
  if (read == nullptr) choice.check_patterns(); // a file of PEFT may have patterns without a use
  const std::vector<AdapterWord> words = choice.words();
  part.settings.targets = names_of(words, &AdapterWord::text);
  part.settings.modules_to_save = choice.saved_modules();
  part.settings.tied_head = choice.saves("embedding") ? head : "";
  if (kind.complete != nullptr) kind.complete(part.settings, words);
  const std::set<int64_t> borders = choice.borders();
  Model::Backup before = model.backup();
  try {
    if (!borders.empty()) params.cut_at({{kBasePart, borders}});
    const std::vector<AddedStack> added =
        added_stacks(params, part.name, choice.stacks(), kind, options.seed,
                     read == nullptr && !params.is_sketch(), task);
    model.add_part(std::move(part), [&] {
      if (params.is_sketch()) {
        for (const AddedStack& stack : added)
          params.add_sketch(stack.spec, weight_format(DType::f32));
        return;
      }
      graph::run_on_all(model.engine(), [&] { // each process makes its part
        for (const AddedStack& stack : added) {
          const auto fill = [&](ParamForm& form, const StackPart& own) {
            fill_added(form, own, stack, options.seed, read, task);
          };
          fill_stack(params, params.reserve(stack.spec, weight_format(DType::f32)), fill, task);
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
  const AdapterKind& kind = find_adapter_kind(part->settings.kind);
  const auto forms = kind.forms(part->settings, part->name);
  model.scale_part(part->name, static_cast<float>(scale), [&](const ParamSpec& spec) {
    const AdapterTensor* tensor = kind.find_tensor(spec.name);
    if (tensor == nullptr) return static_cast<float>(scale); // a copy
    const std::string name = spec.file_name(spec.pieces[0], 0);
    const std::string module = name.substr(0, name.size() - tensor->ending.size());
    const double own =
        tensor->has_factor ? forms->form({module, std::string(own_name(spec))}).factor : 1;
    return static_cast<float>(tensor->has_scale ? scale * own : own);
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

namespace {

struct AdapterSize {
  int64_t matrices = 0, numbers = 0;
};

AdapterSize size_of(const std::vector<ParamSpec>& specs, const AdapterKind& kind) {
  AdapterSize size;
  std::set<std::string> stacks; // of the base
  for (const ParamSpec& spec : specs) {
    size.numbers += spec.shape().count();
    const AdapterTensor* tensor = kind.find_tensor(spec.name);
    if (tensor == nullptr) continue;
    const size_t end = spec.name.size() - tensor->suffix.size();
    if (stacks.insert(spec.name.substr(0, end)).second)
      size.matrices += spec.copies() * std::ssize(spec.pieces);
  }
  return size;
}

Json row_of(const Part& part, const AdapterSize& size) {
  const AdapterKind& own = find_adapter_kind(part.settings.kind);
  Json row = {{"name", adapter_name(part.name)},
              {"kind", own.name},
              {"rank", part.settings.rank},
              {"alpha", part.settings.alpha},
              {"rslora", part.settings.is_stabilised}};
  for (const AdapterKind* kind : adapter_kinds()) {
    if (kind->flag != nullptr) row[kind->flag] = kind == &own;
  }
  row["dropout"] = part.settings.dropout;
  row["modules_to_save"] = part.settings.modules_to_save;
  if (own.describe != nullptr) own.describe(part.settings, row);
  row["scale"] = part.scale;
  row["modules"] = size.matrices;
  row["params"] = size.numbers;
  row["bytes"] = size.numbers * dtype_size(DType::f32);
  return row;
}

} // namespace

Json list_adapters(const Model& model) {
  Json list = Json::array();
  for (const std::string& name : model.parts().names()) {
    const std::shared_ptr<const Part> part = model.parts().find(name);
    if (part->kind != PartKind::adapter) continue;
    const AdapterKind& kind = find_adapter_kind(part->settings.kind);
    list.push_back(row_of(*part, size_of(model.params().specs(name), kind)));
  }
  return list;
}

} // namespace dllm::model
