#include "model/files/load_parameters.h"

#include "base/error.h"
#include "base/number.h"
#include "model/params/number_range.h"
#include "model/params/partition.h"
#include "model/params/stack_part.h"
#include "model/plan.h"
#include "tensor/batch.h"

#include <algorithm>

namespace dllm::model {
namespace {

// Size above which stacks of plain and coded layers become int8 in place of f32.
constexpr int64_t kLargestF32 = int64_t{1} << 30;

int64_t f32_bytes(const std::vector<ParamSpec>& specs) {
  int64_t bytes = 0;
  for (const ParamSpec& spec : specs) bytes += spec.shape().count() * 4;
  return bytes;
}

// Returns true when a tensor of the stack holds plain floats.
bool is_float(const WeightSource& weights, const ParamSpec& spec) {
  for (int64_t layer = 0; layer < spec.copies(); ++layer) {
    for (const ParamPiece& piece : spec.pieces) {
      const WeightFormat* found = weights.format(spec.logical_name(piece, layer));
      if (found != nullptr && found->is_float()) return true;
    }
  }
  return false;
}

// Option dtype: "keep" is another word for auto.
bool as_in_file(const std::string& dtype) {
  return dtype == "auto" || dtype == "keep";
}

// Returns the format of a stack whose tensors have these formats in the file. shrink: 8 bits in
// place of f32.
const WeightFormat& format_in_file(const ParamSpec& spec, const WeightSource& weights,
                                   bool shrink) {
  const WeightFormat* own = nullptr; // the common format of its tensors
  bool same = true;
  for (int64_t layer = 0; layer < spec.copies(); ++layer) {
    for (const ParamPiece& piece : spec.pieces) {
      const WeightFormat* found = weights.format(spec.logical_name(piece, layer));
      if (layer == 0 && &piece == &spec.pieces.front()) own = found;
      same = same && found == own;
    }
  }
  if (same && own != nullptr) return storage_format(spec, *own);
  // The layers of the stack have several types, or a type without a lane loader. 8 bits lose little
  // of such types.
  if (weights.quantized() && !is_float(weights, spec))
    return storage_format(spec, weight_format("q8_0"));
  if (shrink) return storage_format(spec, weight_format(DType::i8));
  return storage_format(spec, weight_format(DType::f32));
}

// Returns the text of a number's place in the whole tensor, from its index in the part.
std::string whole_place(const Shape& whole, const Box& box, int64_t at) {
  const BoxRuns runs(whole, box);
  return place_text(whole, runs.begin(at / runs.length()) + at % runs.length());
}

// Checks blocks as they are in the file, a few rows at a time.
void check_blocks(const std::string& name, const Tensor& blocks, const Shape& whole, const Box& box,
                  const Task* task) {
  const Shape numbers = number_shape(blocks.format(), blocks.shape());
  const int64_t width = numbers.dim(-1), rows = blocks.shape().dim(0);
  const int64_t step = std::max<int64_t>(1, (int64_t{1} << 20) / width);
  for (int64_t row = 0; row < rows; row += step) {
    const Tensor piece = dequantize(blocks.rows(row, std::min(rows, row + step)), {}, task);
    const int64_t at = first_non_finite(piece.reshaped(Shape{piece.count()}));
    if (at < 0) continue;
    fail_with_hint("set option check = off to load it anyway", Code::data_loss,
                   "tensor {} holds {} at {}", name, piece.as<float>()[static_cast<size_t>(at)],
                   whole_place(whole, box, row * width + at));
  }
}

// Checks a part of a tensor in the type of the file. The conversion after it finds the numbers in
// the cache.
void check_weight(const std::string& name, const Tensor& tensor, const Shape& whole, const Box& box,
                  const Task* task) {
  constexpr int64_t kPiece = int64_t{1} << 20; // numbers between two checks of the task
  const Tensor flat = tensor.reshaped(Shape{tensor.count()});
  int64_t at = -1;
  in_pieces(tensor.count(), kPiece, task, [&](int64_t begin, int64_t end) {
    const int64_t found = at < 0 ? first_non_finite(flat.rows(begin, end)) : -1;
    if (found >= 0) at = begin + found;
  });
  if (at < 0) return;
  float value;
  convert(tensor.dtype(), tensor.bytes() + at * dtype_size(tensor.dtype()), DType::f32, &value, 1);
  fail_with_hint("set option check = off to load it anyway", Code::data_loss,
                 "tensor {} holds {} at {}", name, value, whole_place(whole, box, at));
}

// Reads parts of the tensors of one model into the forms that are uploaded.
class TensorReader {
public:
  TensorReader(const WeightSource& weights, bool checks, OtherBytes other, Task* task)
      : weights_(weights), checks_(checks), task_(task), other_(other) {}

  void add_total(const StackPart& part) {
    visit(part, [&](const std::string& name, size_t piece, int64_t) {
      total_ += bytes_of(name, part, piece);
    });
  }
  void read(ParamForm& form, const StackPart& part) {
    visit(part, [&](const std::string& name, size_t piece, int64_t layer) {
      check_task(task_);
      read_tensor(form, part, name, piece, layer);
      done_ += bytes_of(name, part, piece);
      if (task_ == nullptr) return;
      task_->set_progress(other_.before + std::min(done_, total_),
                          other_.before + total_ + other_.later);
    });
  }
  int64_t total() const { return total_; }

private:
  template <class Visit> static void visit(const StackPart& part, const Visit& look) {
    for (int64_t layer = 0; layer < part.spec.copies(); ++layer) {
      for (size_t piece = 0; piece < part.spec.pieces.size(); ++piece)
        look(part.spec.logical_name(part.spec.pieces[piece], layer), piece, layer);
    }
  }

  int64_t bytes_of(const std::string& name, const StackPart& part, size_t piece) const {
    const double share = static_cast<double>(part.boxes[piece].shape.count()) /
                         static_cast<double>(part.whole[piece].count());
    return static_cast<int64_t>(share * static_cast<double>(weights_.file_bytes(name)));
  }

  // Most tensors have the layout of the file and are read into their location directly.
  void read_tensor(ParamForm& form, const StackPart& part, const std::string& name, size_t piece,
                   int64_t layer) {
    const Box& box = part.boxes[piece];
    std::byte* place = form.place(part.spec, piece, layer);
    if (place != nullptr && form.format->is_blocks() && weights_.format(name) == form.format) {
      const Tensor blocks = weights_.read_blocks(name, box, place, task_);
      if (checks_) check_blocks(name, blocks, part.whole[piece], box, task_);
      return;
    }
    if (has_rows_of(form, part.spec.pieces[piece], name)) {
      const WeightSource::ScaledRows rows = weights_.read_rows(name, box, task_);
      if (checks_)
        check_weight(name, rows.scales, {part.whole[piece].dim(0)},
                     {{box.begin[0]}, {box.shape[0]}}, task_);
      return form.put_rows(part.spec, piece, layer, rows.values, rows.scales);
    }
    const bool direct = place != nullptr && !form.format->is_blocks() &&
                        weights_.dtype(name) == form.values.dtype();
    const Tensor tensor = direct ? weights_.read_part_to(name, box, place, task_)
                                 : weights_.read_part(name, box, task_);
    if (checks_) check_weight(name, tensor, part.whole[piece], box, task_);
    if (direct) return;
    if (checks_) check_number_range(name, tensor, *form.format, task_);
    form.put(part.spec, piece, layer, tensor, task_);
  }

  // Returns true when the file has int8 with scales of rows, which are kept as they are.
  bool has_rows_of(const ParamForm& form, const ParamPiece& piece, const std::string& name) const {
    return form.format->has_table() && !piece.transpose && !piece.between && !piece.stack &&
           weights_.format(name) == form.format;
  }

  const WeightSource& weights_;
  bool checks_;
  Task* task_;
  OtherBytes other_;
  int64_t total_ = 0, done_ = 0; // bytes of the files
};
} // namespace

FormOf kept_formats(const WeightSource& weights, const std::vector<ParamSpec>& specs) {
  const bool shrink = weights.quantized() && f32_bytes(specs) > kLargestF32;
  return [&weights, shrink](const ParamSpec& spec) -> const WeightFormat& {
    return format_in_file(spec, weights, shrink);
  };
}

void load_parameters(Model& model, const std::vector<ParamSpec>& specs, const WeightSource& weights,
                     const Options& options, const std::map<std::string, std::string>& run_formats,
                     OtherBytes& count, Task* task) {
  const std::string& dtype = options.str("dtype");
  const FormOf in_files = kept_formats(weights, specs);
  const auto form_of = [&](const ParamSpec& spec) -> const WeightFormat& {
    if (!as_in_file(dtype)) return storage_format(spec, weight_format(dtype));
    const auto of_run = run_formats.find(spec.name);
    return of_run == run_formats.end() ? in_files(spec)
                                       : storage_format(spec, weight_format(of_run->second));
  };
  check_memory(model.engine(), specs, form_of);
  ParamStore& store = model.params();
  TensorReader reader(weights, store.checks(), count, task);
  const auto order = reserve_largest_first(model, specs, form_of);
  for (const auto& entry : order) reader.add_total(own_part(store, entry.first));
  const auto read = [&](ParamForm& form, const StackPart& part) { reader.read(form, part); };
  for (const auto& entry : order) fill_stack(store, entry.first, read, task);
  count.before += reader.total();
}

} // namespace dllm::model
