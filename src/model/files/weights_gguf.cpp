#include "base/error.h"
#include "model/files/gguf_names.h"
#include "model/files/weights.h"

#include <algorithm>
#include <set>

namespace dllm::model {
namespace {

bool is_float_type(uint32_t type) {
  const auto ggml = static_cast<ckpt::GgmlType>(type);
  return ggml == ckpt::GgmlType::f32 || ggml == ckpt::GgmlType::f16 ||
         ggml == ckpt::GgmlType::bf16 || ggml == ckpt::GgmlType::f64;
}

class GgufWeights final : public WeightSource {
public:
  GgufWeights(std::shared_ptr<const ckpt::GgufFile> file, const ModelConfig& config)
      : file_(std::move(file)), config_(config) {}

  void check(const std::vector<ParamSpec>& specs) const override {
    std::set<std::string> known = {"rope_freqs.weight"}; // read with the config
    if (config_.tie_embeddings) known.insert("output.weight");
    for (const ParamSpec& spec : specs) {
      for (int64_t layer = 0; layer < spec.copies(); ++layer) {
        for (const ParamPiece& piece : spec.pieces)
          known.insert(check_tensor(spec.logical_name(piece, layer), spec.logical_shape(piece)));
      }
    }
    for (const auto& [name, info] : file_->tensors()) {
      if (known.contains(name)) continue;
      fail_with_hint("check the architecture: the file may have another one under a known name",
                     Code::data_loss, "{}: unexpected tensor {} {}", file_->name(), name,
                     info.shape.text());
    }
  }

  DType dtype(const std::string& logical) const override {
    switch (static_cast<ckpt::GgmlType>(info(logical).type)) {
    case ckpt::GgmlType::f16: return DType::f16;
    case ckpt::GgmlType::bf16: return DType::bf16;
    default: return DType::f32;
    }
  }

  bool quantized() const override {
    return std::any_of(file_->tensors().begin(), file_->tensors().end(),
                       [](const auto& entry) { return !is_float_type(entry.second.type); });
  }

  int64_t file_bytes(const std::string& logical) const override {
    const Rows rows = find(logical);
    return (rows.end - rows.begin) * row_bytes(*rows.info);
  }

  Tensor read(const std::string& logical, const Task* task) const override {
    const Rows rows = find(logical);
    Tensor tensor = dtype(logical) == DType::f32 ? numbers(rows, task) : elements(rows, task);
    if (rows.part_end > 0) tensor = tensor.rows(rows.part_begin, rows.part_end);
    if (turns_pairs(logical, config_)) tensor = halves_from_pairs(tensor, config_.head_dim);
    if (is_centered_norm(logical, config_)) tensor = less_one(tensor);
    return tensor;
  }

  Tensor read_part(const std::string& logical, const Box& box, const Task* task) const override {
    const Rows rows = find(logical);
    if (box.shape.count() == rows.shape().count()) return read(logical, task);
    if (!is_matrix(rows, box)) return part_of(read(logical, task), box);
    const MatrixPart part(rows, box, turns_pairs(logical, config_) ? config_.head_dim : 1);
    const std::vector<std::byte> stored = stored_bytes(rows, part.file, task);
    Tensor tensor = dtype(logical) == DType::f32 ? numbers_of(rows, part.file, stored, task)
                                                 : Tensor(dtype(logical), part.file.shape);
    if (dtype(logical) != DType::f32)
      copy_in_pieces(tensor.mutable_bytes(), stored.data(), tensor.byte_size(), task);
    if (turns_pairs(logical, config_)) tensor = halves_from_pairs(tensor, config_.head_dim);
    return part.inside.is_all_of(tensor.shape()) ? tensor : part_of(tensor, part.inside);
  }

  Tensor read_part_to(const std::string& logical, const Box& box, std::byte* to,
                      const Task* task) const override {
    const Rows rows = find(logical);
    const bool whole = box.shape.count() == rows.shape().count();
    const bool as_it_is = stored_dtype(rows) && rows.part_end == 0 &&
                          !turns_pairs(logical, config_) && !is_centered_norm(logical, config_);
    if (as_it_is && (whole || is_matrix(rows, box))) {
      if (whole)
        file_->read_stored(rows.name, to, rows.begin, rows.end, task);
      else
        file_->read_stored(rows.name, to, MatrixPart(rows, box, 1).file, task);
      const auto size = static_cast<size_t>(box.shape.count() * dtype_size(dtype(logical)));
      return Tensor(dtype(logical), box.shape, Bytes(to, size, nullptr));
    }
    const Tensor tensor = read_part(logical, box, task).to(dtype(logical), task);
    copy_in_pieces(to, tensor.bytes(), tensor.byte_size(), task);
    return Tensor(tensor.dtype(), tensor.shape(),
                  Bytes(to, static_cast<size_t>(tensor.byte_size()), nullptr));
  }

  const WeightFormat* format(const std::string& logical) const override {
    return ckpt::ggml_weight_format(info(logical).type);
  }

  Tensor read_blocks(const std::string& logical, const Box& box, std::byte* to,
                     const Task* task) const override {
    const WeightFormat& own = *format(logical);
    const Rows rows = find(logical);
    const Shape stored = stored_shape(own, box.shape);
    Tensor blocks(DType::u8, stored, Bytes(to, static_cast<size_t>(stored.count()), nullptr));
    if (turns_pairs(logical, config_)) { // rows are whole blocks
      const MatrixPart part(rows, box, config_.head_dim);
      const std::vector<std::byte> heads = stored_bytes(rows, part.file, task);
      const Tensor pairs(DType::u8, stored_shape(own, part.file.shape),
                         Bytes(heads.data(), heads.size(), nullptr));
      Box inside{{part.inside.begin[0], 0}, {box.shape[0], stored[1]}};
      const Tensor halves = part_of(halves_from_pairs(pairs, config_.head_dim), inside);
      copy_in_pieces(to, halves.bytes(), halves.byte_size(), task);
    } else if (is_matrix(rows, box)) {
      file_->read_stored(rows.name, to, MatrixPart(rows, box, 1).file, task);
    } else {
      file_->read_stored(rows.name, to, rows.begin, rows.end, task);
    }
    blocks.set_format(&own);
    return blocks;
  }

private:
  // Rows of a tensor of the file.
  struct Rows {
    std::string name;
    const ckpt::GgufTensor* info;
    int64_t begin, end;
    int64_t part_begin = 0, part_end = 0; // of a vector that is cut; 0, 0: all of it
    bool single = false;                  // a vector that is the one row of a matrix

    int64_t width() const { return info->shape.rank() > 0 ? info->shape.dim(-1) : 1; }
    Shape shape() const {
      return info->shape.rank() < 2 && !single ? info->shape : Shape{end - begin, width()};
    }
  };

  // The box to read for some rows and columns: whole blocks, and all rows of heads that rotate
  // together.
  struct MatrixPart {
    Box file;   // rows of the file's tensor, in numbers
    Box inside; // the part in the box that was read

    MatrixPart(const Rows& rows, const Box& box, int64_t together) {
      const int64_t block = ckpt::ggml_type_info(rows.info->type)->block;
      const auto wide = [](int64_t begin, int64_t size, int64_t unit) {
        const int64_t from = begin / unit * unit;
        return std::pair(from, (begin + size - from + unit - 1) / unit * unit);
      };
      const auto [row, row_count] = wide(box.begin[0], box.shape[0], together);
      const auto [column, columns] = wide(box.begin[1], box.shape[1], block);
      file = {{rows.begin + row, column}, {row_count, columns}};
      inside = {{box.begin[0] - row, box.begin[1] - column}, box.shape};
    }
  };

  // Returns true for a part of a matrix. Vectors are read as a whole.
  static bool is_matrix(const Rows& rows, const Box& box) {
    return box.shape.rank() == 2 && rows.info->shape.rank() > 1;
  }

  std::vector<std::byte> stored_bytes(const Rows& rows, const Box& box, const Task* task) const {
    const ckpt::GgmlTypeInfo* type = ckpt::ggml_type_info(rows.info->type);
    std::vector<std::byte> stored(
        static_cast<size_t>(box.shape.count() / type->block * type->bytes));
    file_->read_stored(rows.name, stored.data(), box, task);
    return stored;
  }

  static Tensor numbers_of(const Rows& rows, const Box& box, const std::vector<std::byte>& stored,
                           const Task* task) {
    const ckpt::GgmlTypeInfo* type = ckpt::ggml_type_info(rows.info->type);
    Tensor made(DType::f32, box.shape);
    in_pieces(made.count() / type->block, kPiece / type->block, task,
              [&](int64_t begin, int64_t end) {
                ckpt::dequantize_blocks(rows.info->type, stored.data() + begin * type->bytes,
                                        made.mutable_as<float>().data() + begin * type->block,
                                        (end - begin) * type->block);
              });
    return made;
  }

  static int64_t row_bytes(const ckpt::GgufTensor& info) {
    const ckpt::GgmlTypeInfo* type = ckpt::ggml_type_info(info.type);
    const int64_t width = info.shape.rank() > 0 ? info.shape.dim(-1) : 1;
    return type == nullptr ? 0 : width / type->block * type->bytes;
  }

  bool stored_dtype(const Rows& rows) const {
    const auto type = static_cast<ckpt::GgmlType>(rows.info->type);
    return type == ckpt::GgmlType::f32 || type == ckpt::GgmlType::f16 ||
           type == ckpt::GgmlType::bf16;
  }

  // Returns the location of a logical tensor, in its own tensor or in a fused one.
  GgufPlace place(const std::string& logical) const {
    const GgufPlace own = gguf_place(logical, config_);
    if (own.name.empty() || file_->has_tensor(own.name)) return own;
    const GgufPlace fused = fused_place(own, config_);
    return !fused.name.empty() && file_->has_tensor(fused.name) ? fused : own;
  }

  Rows find(const std::string& logical) const {
    const GgufPlace at = place(logical);
    const ckpt::GgufTensor& found = file_->tensor_info(at.name);
    const Shape& shape = found.shape;
    Rows rows{at.name, &found, 0, 1};
    const bool is_fused = at.name.find(".attn_qkv.") != std::string::npos;
    const int64_t fused_end =
        is_fused ? at.row + (at.row == 0 ? config_.query_size() : config_.kv_size()) : 0;
    if (shape.rank() < 2) {
      rows.single = is_single_row(logical);
      if (is_fused) rows.part_begin = at.row, rows.part_end = fused_end;
      return rows;
    }
    rows.begin = at.row;
    rows.end = is_fused         ? fused_end
               : at.expert >= 0 ? at.row + shape[1]
                                : shape.count() / shape.dim(-1);
    return rows;
  }
  const ckpt::GgufTensor& info(const std::string& logical) const { return *find(logical).info; }

  // Reads rows as f32, a few at a time.
  Tensor numbers(const Rows& rows, const Task* task) const {
    Tensor made(DType::f32, rows.shape());
    const int64_t width = rows.width();
    const auto to = made.mutable_as<float>();
    in_pieces(rows.end - rows.begin, std::max<int64_t>(1, kPiece / width), task,
              [&](int64_t begin, int64_t end) {
                file_->dequantize(rows.name,
                                  to.subspan(static_cast<size_t>(begin * width),
                                             static_cast<size_t>((end - begin) * width)),
                                  rows.begin + begin, rows.begin + end);
              });
    return made;
  }
  static constexpr int64_t kPiece = int64_t{1} << 18; // numbers

  Tensor elements(const Rows& rows, const Task* task) const {
    const bool halves = static_cast<ckpt::GgmlType>(rows.info->type) == ckpt::GgmlType::f16;
    Tensor made(halves ? DType::f16 : DType::bf16, rows.shape());
    file_->read_stored(rows.name, made.mutable_bytes(), rows.begin, rows.end, task);
    return made;
  }

  static Tensor less_one(const Tensor& norm) {
    Tensor made(DType::f32, norm.shape());
    const Tensor wide = norm.to(DType::f32);
    std::transform(wide.as<float>().begin(), wide.as<float>().end(),
                   made.mutable_as<float>().begin(), [](float x) { return x - 1.0f; });
    return made;
  }

  // Returns the shape that the file's tensor must have.
  Shape file_shape(const GgufPlace& at, const std::string& logical, const Shape& expected,
                   const Shape& found) const {
    if (is_single_row(logical) && found.rank() == 1) return Shape{expected.dim(-1)};
    if (at.expert >= 0) return expected.with_front(config_.experts.count);
    if (at.name.find(".attn_qkv.") == std::string::npos) return expected;
    return expected.with_dim(0, config_.query_size() + 2 * config_.kv_size());
  }

  std::string check_tensor(const std::string& logical, const Shape& expected) const {
    const GgufPlace at = place(logical);
    if (at.name.empty() || !file_->has_tensor(at.name)) {
      fail(Code::data_loss, "{}: tensor {} {} is missing", file_->name(),
           at.name.empty() ? logical : at.name, expected.text());
    }
    const ckpt::GgufTensor& found = file_->tensor_info(at.name);
    if (const Shape wanted = file_shape(at, logical, expected, found.shape);
        found.shape != wanted) {
      fail(Code::data_loss, "{}: tensor {} has shape {}, expected {}", file_->name(), at.name,
           found.shape.text(), wanted.text());
    }
    const ckpt::GgmlTypeInfo* type = ckpt::ggml_type_info(found.type);
    if (type == nullptr || !type->readable) {
      fail(Code::unimplemented, "{}: tensor {} has type {}, which is not supported yet",
           file_->name(), at.name, found.type_name);
    }
    return at.name;
  }

  std::shared_ptr<const ckpt::GgufFile> file_;
  ModelConfig config_;
};

} // namespace

std::unique_ptr<WeightSource> open_gguf_weights(std::shared_ptr<const ckpt::GgufFile> file,
                                                const ModelConfig& config) {
  return std::make_unique<GgufWeights>(std::move(file), config);
}

} // namespace dllm::model
