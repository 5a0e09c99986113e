#include "ckpt/safetensors/safetensors.h"

#include "base/error.h"
#include "base/json.h"

#include <nlohmann/json.hpp>

namespace dllm::ckpt {
namespace {

struct TypeRow {
  const char* word;
  int64_t size;
  std::optional<DType> dtype;
};

// Types of the format (safetensors 0.6). A tensor of a type without a dtype may be in a file but
// cannot be read.
const TypeRow kTypes[] = {{"F32", 4, DType::f32}, {"F16", 2, DType::f16}, {"BF16", 2, DType::bf16},
                          {"F64", 8, DType::f64}, {"I32", 4, DType::i32}, {"I64", 8, DType::i64},
                          {"U8", 1, DType::u8},   {"I8", 1, DType::i8},   {"U32", 4, DType::u32},
                          {"BOOL", 1, DType::u8}, {"I16", 2, {}},         {"U16", 2, {}},
                          {"U64", 8, {}},         {"F8_E5M2", 1, {}},     {"F8_E4M3", 1, DType::u8},
                          {"F8_E8M0", 1, {}},     {"C64", 8, {}}};

const TypeRow* find_type(std::string_view word) {
  for (const TypeRow& row : kTypes) {
    if (word == row.word) return &row;
  }
  return nullptr;
}

// Reads {"__metadata__": {text: text}, name: {"dtype": text, "shape": [n...], "data_offsets":
// [begin, end]}}.
class HeaderReader final : public nlohmann::json_sax<Json> {
public:
  HeaderReader(const std::string& file, TensorTable* tensors, Metadata* metadata)
      : file_(file), tensors_(tensors), metadata_(metadata) {}

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool number_integer(number_integer_t value) override { return number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(INT64_MAX)) {
      fail(Code::data_loss, "{}: {}: the number {} is too large", file_, where(), value);
    }
    return number(static_cast<int64_t>(value));
  }
  bool number_float(number_float_t, const string_t&) override {
    unexpected("a number with a fraction");
  }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool string(string_t& value) override {
    if (depth_ == 2 && in_metadata_) {
      if (!metadata_->emplace(field_, std::move(value)).second) twice(field_);
      return true;
    }
    if (depth_ != 2 || in_array_ || field_ != "dtype") unexpected("a text");
    mark(kType);
    tensor_->type = std::move(value);
    return true;
  }

  bool start_object(size_t) override {
    if (depth_ >= 2 || in_array_) unexpected("an object");
    if (++depth_ == 2 && !in_metadata_) {
      const auto [entry, added] = tensors_->try_emplace(name_);
      if (!added) twice(name_);
      tensor_ = &entry->second;
      seen_ = 0;
    }
    return true;
  }

  bool end_object() override {
    if (depth_ == 2 && !in_metadata_) finish_tensor();
    --depth_;
    return true;
  }

  bool start_array(size_t) override {
    if (depth_ != 2 || in_metadata_ || in_array_ ||
        (field_ != "shape" && field_ != "data_offsets")) {
      unexpected("a list");
    }
    mark(field_ == "shape" ? kShape : kOffsets);
    in_array_ = true;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    in_array_ = false;
    if (field_ == "shape") {
      dims_ = numbers_;
      return true;
    }
    if (numbers_.size() != 2) {
      fail(Code::data_loss, "{}: {}: data_offsets holds {} numbers, expected 2", file_, where(),
           numbers_.size());
    }
    tensor_->begin = numbers_[0];
    tensor_->end = numbers_[1];
    return true;
  }

  bool key(string_t& word) override {
    if (depth_ == 1) {
      name_ = std::move(word);
      in_metadata_ = name_ == "__metadata__";
      if (in_metadata_ && std::exchange(metadata_seen_, true)) twice(name_);
      field_.clear();
    } else {
      field_ = std::move(word);
    }
    return true;
  }

  bool parse_error(size_t byte, const std::string&, const nlohmann::json::exception&) override {
    fail(Code::data_loss, "{}: the header is not valid JSON near byte {}", file_, byte);
  }

private:
  enum Field { kType = 1, kShape = 2, kOffsets = 4 };

  bool number(int64_t value) {
    constexpr size_t kMaxNumbers = 16;
    if (!in_array_) unexpected("a number");
    if (value < 0)
      fail(Code::data_loss, "{}: {}: {} holds the negative number {}", file_, where(), field_,
           value);
    if (numbers_.size() >= kMaxNumbers) {
      fail(Code::data_loss, "{}: {}: {} holds more than {} numbers", file_, where(), field_,
           kMaxNumbers);
    }
    numbers_.push_back(value);
    return true;
  }

  void mark(Field field) {
    if (seen_ & field) twice(field_);
    seen_ |= field;
  }

  void finish_tensor() {
    TensorInfo& tensor = *tensor_;
    if (seen_ != (kType | kShape | kOffsets)) {
      const char* missing = !(seen_ & kType)    ? "dtype"
                            : !(seen_ & kShape) ? "shape"
                                                : "data_offsets";
      fail(Code::data_loss, "{}: tensor {} has no {}", file_, name_, missing);
    }
    const TypeRow* type = find_type(tensor.type);
    try {
      tensor.shape = checked_shape(dims_, type ? type->size : 1, "tensor " + name_);
    } catch (const Error& e) {
      fail(Code::data_loss, "{}: {}", file_, e.text());
    }
    tensor.file = file_;
    if (tensor.end < tensor.begin) {
      fail(Code::data_loss, "{}: tensor {} ends at byte {} before it begins at {}", file_, name_,
           tensor.end, tensor.begin);
    }
    if (type == nullptr) return;
    tensor.dtype = type->dtype;
    const int64_t expected = tensor.shape.count() * type->size;
    if (tensor.end - tensor.begin != expected) {
      fail(Code::data_loss, "{}: tensor {} is {} {}, expected {} bytes, found {}", file_, name_,
           tensor.type, tensor.shape.text(), expected, tensor.end - tensor.begin);
    }
  }

  std::string where() const { return name_.empty() ? "the header" : "tensor " + name_; }
  [[noreturn]] void unexpected(const char* what) {
    fail(Code::data_loss, "{}: {}: the format does not allow {} at this place", file_, where(),
         what);
  }
  [[noreturn]] void twice(const std::string& word) {
    fail(Code::data_loss, "{}: the header names {} twice", file_, word);
  }

  const std::string& file_;
  TensorTable* tensors_;
  Metadata* metadata_;
  TensorInfo* tensor_ = nullptr;
  std::string name_, field_;
  std::vector<int64_t> numbers_, dims_;
  int depth_ = 0;
  int seen_ = 0;
  bool in_array_ = false, in_metadata_ = false, metadata_seen_ = false;
};

} // namespace

int64_t safetensors_type_size(std::string_view type) {
  const TypeRow* row = find_type(type);
  return row != nullptr ? row->size : 0;
}

std::optional<DType> safetensors_dtype(std::string_view type) {
  const TypeRow* row = find_type(type);
  return row != nullptr ? row->dtype : std::nullopt;
}

const char* safetensors_type(DType dtype) {
  for (const TypeRow& row : kTypes) {
    if (row.dtype == dtype) return row.word;
  }
  return "?";
}

void parse_safetensors_header(std::string_view json, const std::string& file, TensorTable* tensors,
                              Metadata* metadata) {
  HeaderReader reader(file, tensors, metadata);
  const size_t first = json.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || json[first] != '{') {
    fail(Code::data_loss, "{}: the header is not a JSON object", file);
  }
  Json::sax_parse(json.begin(), json.end(), &reader);
}

} // namespace dllm::ckpt
