#include "model/model.h"

#include "base/error.h"
#include "base/random.h"
#include "model/params/partition.h"
#include "model/params/stack_part.h"

#include <algorithm>
#include <cmath>

namespace dllm::model {
namespace {

// "x.q_proj.weight" -> "x.q_proj.lora_A.weight"
std::string adapter_name(const std::string& weight, const char* part) {
  const size_t cut = weight.rfind('.');
  return weight.substr(0, cut) + "." + part + weight.substr(cut);
}

// The stack of one half of an adapter; each matrix has rows x columns numbers.
ParamSpec half_of(const std::string& adapter, const ParamSpec& base, const char* suffix,
                  const char* part, int64_t rows, int64_t columns) {
  ParamSpec spec = base;
  const bool experts = base.element.rank() == 3;
  spec.part = adapter;
  spec.name = base.name + suffix;
  spec.role = ParamRole::adapter;
  spec.element = experts ? Shape{base.element[0], rows, columns} : Shape{rows, columns};
  spec.partition = adapter_partition(base.partition, std::string_view(part) == "lora_A");
  spec.pieces.clear();
  for (const ParamPiece& piece : base.pieces) {
    spec.pieces.push_back({adapter_name(piece.logical, part), experts ? 1 : rows, false});
    if (!experts) break; // REQUIRES of add_adapters: one piece
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

// Returns the indices of the stacks that the patterns name. A stack is named as a whole.
std::vector<size_t> chosen_stacks(const ParamStore& params,
                                  const std::vector<std::string>& patterns) {
  std::vector<size_t> chosen;
  for (const std::string& pattern : patterns) {
    bool any = false;
    for (size_t i = 0; i < params.physical().size(); ++i) {
      const ParamStore::Physical& entry = params.physical()[i];
      if (entry.scale_of >= 0 || entry.spec.part != kBasePart) continue;
      const int64_t hits = count_matches(pattern, entry.spec);
      if (hits == 0) continue;
      any = true;
      const bool matrix = entry.spec.role == ParamRole::weight && entry.spec.layers > 0 &&
                          (entry.spec.element.rank() == 3 || entry.spec.pieces.size() == 1);
      if (!matrix)
        fail(Code::unimplemented, "{} is not a matrix of a layer, so it cannot have an adapter",
             entry.name);
      if (hits != entry.spec.copies() * static_cast<int64_t>(entry.spec.pieces.size())) {
        fail_with_hint(
            "use a pattern with * for the layer", Code::unimplemented,
            "{} matches {} of the {} tensors of {}: adapters of some layers are not supported yet",
            pattern, hits, entry.spec.copies() * static_cast<int64_t>(entry.spec.pieces.size()),
            entry.name);
      }
      if (std::find(chosen.begin(), chosen.end(), i) == chosen.end()) chosen.push_back(i);
    }
    if (!any) fail(Code::not_found, "no parameter matches {}", pattern);
  }
  return chosen;
}

struct Half {
  ParamSpec spec;
  // true for B, so that a new adapter changes nothing.
  bool is_zero_at_first;
};

// Makes A and B of each chosen stack.
std::vector<Half> halves_of(const ParamStore& params, const std::string& adapter,
                            const AdapterOptions& options) {
  std::vector<Half> halves;
  for (const size_t index : chosen_stacks(params, options.targets)) {
    const ParamSpec& base = params.physical()[index].spec;
    const int64_t out = base.element.dim(-2), in = base.element.dim(-1);
    halves.push_back({half_of(adapter, base, ".lora_a", "lora_A", options.rank, in), false});
    halves.push_back({half_of(adapter, base, ".lora_b", "lora_B", out, options.rank), true});
    halves.back().spec.factor =
        static_cast<float>(options.alpha / static_cast<double>(options.rank));
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
      if (!values.defined() && half.is_zero_at_first) continue;
      if (!values.defined()) values = part_of(first_down(whole, name, seed), box);
      form.put(part.spec, piece, layer, values, task);
    }
  }
}

// Adds a product: base (out, in) += factor * up (out, rank) down (rank, in).
void add_product(Tensor& base, const Tensor& down, const Tensor& up, float factor) {
  const int64_t out = base.shape()[0], in = base.shape()[1], rank = down.shape()[0];
  float* w = base.mutable_as<float>().data();
  const float *a = down.as<float>().data(), *b = up.as<float>().data();
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t r = 0; r < rank; ++r) {
      const float weight = factor * b[o * rank + r];
      for (int64_t i = 0; i < in; ++i) w[o * in + i] += weight * a[r * in + i];
    }
  }
}

Tensor transposed(const Tensor& matrix) {
  const int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  Tensor made(DType::f32, {columns, rows});
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c)
      made.mutable_as<float>()[static_cast<size_t>(c * rows + r)] =
          matrix.as<float>()[static_cast<size_t>(r * columns + c)];
  }
  return made;
}

} // namespace

void add_adapters(Model& model, const AdapterOptions& options, const ReadAdapter& read,
                  const Task* task) {
  if (options.rank < 1 || !std::isfinite(options.alpha))
    fail(Code::invalid_argument,
         "an adapter has rank {} and alpha {}, expected rank 1 or more and a finite alpha",
         options.rank, options.alpha);
  ParamStore& params = model.params();
  Part part;
  part.name = std::string(kAdapterPart) + options.name;
  part.kind = PartKind::adapter;
  part.settings = {options.targets, options.rank, options.alpha};
  const std::vector<Half> halves = halves_of(params, part.name, options);
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
}

void merge_adapters(Model& model) {
  ParamStore& params = model.params();
  const std::vector<ParamStore::Physical> all = params.entries();
  for (const ParamStore::Physical& entry : all) {
    const std::string ending = ".lora_b";
    if (entry.spec.role != ParamRole::adapter || !entry.name.ends_with(ending)) continue;
    const std::string name = entry.spec.name.substr(0, entry.spec.name.size() - ending.size());
    const size_t at = params.index(name);
    const size_t down_at = params.index(qualified_name(entry.spec.part, name + ".lora_a"));
    const ParamSpec base = params.physical()[at].spec, down = params.physical()[down_at].spec;
    // Each stack is read once; writes are collected and uploaded once.
    const Tensor weights = params.widened(at), downs = params.widened(down_at),
                 ups = params.widened(params.index(entry.name));
    for (int64_t layer = 0; layer < base.copies(); ++layer) {
      for (size_t piece = 0; piece < base.pieces.size(); ++piece) {
        const bool turned = base.pieces[piece].transpose;
        Tensor weight = read_piece(base, piece, layer, weights);
        if (turned) weight = transposed(weight);
        add_product(weight, read_piece(down, piece, layer, downs),
                    read_piece(entry.spec, piece, layer, ups), entry.spec.factor);
        params.write(base.logical_name(base.pieces[piece], layer),
                     turned ? transposed(weight) : weight);
      }
    }
  }
  for (const std::string& part : model.parts().names()) {
    if (model.parts().find(part)->kind == PartKind::adapter) model.drop_part(part);
  }
}

} // namespace dllm::model
