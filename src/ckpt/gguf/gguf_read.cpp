// Reads metadata by key and tensors by name from an open GGUF file.
#include "base/error.h"
#include "base/named_table.h"
#include "base/task.h"
#include "ckpt/box_reader.h"
#include "ckpt/gguf/gguf.h"
#include "ckpt/safetensors/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

namespace dllm::ckpt {

namespace {

template <class T> T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Returns element `index` of an integer value; empty for other types and for a u64 beyond i64.
std::optional<int64_t> integer_at(const GgufValue& value, int64_t index) {
  const std::byte* raw = value.raw.data();
  switch (value.type) {
  case GgufType::u8:
  case GgufType::boolean: return load<uint8_t>(raw + index);
  case GgufType::i8: return load<int8_t>(raw + index);
  case GgufType::u16: return load<uint16_t>(raw + 2 * index);
  case GgufType::i16: return load<int16_t>(raw + 2 * index);
  case GgufType::u32: return load<uint32_t>(raw + 4 * index);
  case GgufType::i32: return load<int32_t>(raw + 4 * index);
  case GgufType::i64: return load<int64_t>(raw + 8 * index);
  case GgufType::u64: {
    const auto word = load<uint64_t>(raw + 8 * index);
    if (word > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(word);
  }
  default: return std::nullopt;
  }
}

std::optional<double> number_at(const GgufValue& value, int64_t index) {
  if (value.type == GgufType::f32) return load<float>(value.raw.data() + 4 * index);
  if (value.type == GgufType::f64) return load<double>(value.raw.data() + 8 * index);
  const auto whole = integer_at(value, index);
  if (!whole) return std::nullopt;
  return static_cast<double>(*whole);
}

std::vector<std::string> split_texts(const GgufValue& value) {
  std::vector<std::string> texts;
  texts.reserve(static_cast<size_t>(value.count));
  const std::byte* at = value.raw.data();
  for (int64_t i = 0; i < value.count; ++i) {
    const auto size = static_cast<size_t>(load<uint64_t>(at));
    texts.emplace_back(reinterpret_cast<const char*>(at + sizeof(uint64_t)), size);
    at += sizeof(uint64_t) + size;
  }
  return texts;
}

template <class Map>
[[noreturn]] void fail_unknown(const Map& map, std::string_view name, const std::string& file,
                               const char* what) {
  fail_unnamed({what, "in " + file}, name, names_of(map, kEntryName));
}

// Returns the element type of a Tensor with the same bytes; empty for quantized types.
std::optional<DType> plain_dtype(uint32_t type) {
  switch (static_cast<GgmlType>(type)) {
  case GgmlType::f32: return DType::f32;
  case GgmlType::f16: return DType::f16;
  case GgmlType::bf16: return DType::bf16;
  case GgmlType::f64: return DType::f64;
  case GgmlType::i8: return DType::i8;
  case GgmlType::i32: return DType::i32;
  case GgmlType::i64: return DType::i64;
  default: return std::nullopt;
  }
}

} // namespace

const GgufValue& GgufFile::value(std::string_view key) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) fail_unknown(metadata_, key, name_, "key");
  return found->second;
}

const GgufValue& GgufFile::typed(std::string_view key, bool is_array, const char* wanted) const {
  const GgufValue& found = value(key);
  if (found.is_array != is_array) {
    fail(Code::data_loss, "{}: key {} is {}, expected {}", name_, key,
         found.is_array ? "a list" : "one value", wanted);
  }
  return found;
}

int64_t GgufFile::integer(std::string_view key) const {
  const auto whole = integer_at(typed(key, false, "an integer"), 0);
  if (!whole) fail(Code::data_loss, "{}: key {} is not an integer", name_, key);
  return *whole;
}

double GgufFile::number(std::string_view key) const {
  const auto found = number_at(typed(key, false, "a number"), 0);
  if (!found) fail(Code::data_loss, "{}: key {} is not a number", name_, key);
  return *found;
}

bool GgufFile::boolean(std::string_view key) const {
  const GgufValue& found = typed(key, false, "a boolean");
  if (found.type != GgufType::boolean)
    fail(Code::data_loss, "{}: key {} is not a boolean", name_, key);
  return integer_at(found, 0).value() != 0;
}

std::string GgufFile::text(std::string_view key) const {
  const GgufValue& found = typed(key, false, "a text");
  if (found.type != GgufType::text) fail(Code::data_loss, "{}: key {} is not a text", name_, key);
  return split_texts(found).front();
}

std::vector<int64_t> GgufFile::integers(std::string_view key) const {
  const GgufValue& found = typed(key, true, "a list of integers");
  std::vector<int64_t> values;
  for (int64_t i = 0; i < found.count; ++i) {
    const auto whole = integer_at(found, i);
    if (!whole) fail(Code::data_loss, "{}: key {} is not a list of integers", name_, key);
    values.push_back(*whole);
  }
  return values;
}

std::vector<double> GgufFile::numbers(std::string_view key) const {
  const GgufValue& found = typed(key, true, "a list of numbers");
  std::vector<double> values;
  for (int64_t i = 0; i < found.count; ++i) {
    const auto one = number_at(found, i);
    if (!one) fail(Code::data_loss, "{}: key {} is not a list of numbers", name_, key);
    values.push_back(*one);
  }
  return values;
}

std::vector<std::string> GgufFile::texts(std::string_view key) const {
  const GgufValue& found = typed(key, true, "a list of texts");
  if (found.type != GgufType::text)
    fail(Code::data_loss, "{}: key {} is not a list of texts", name_, key);
  return split_texts(found);
}

const GgufTensor& GgufFile::tensor_info(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) fail_unknown(tensors_, name, name_, "tensor");
  return found->second;
}

const GgufTensor& GgufFile::readable(std::string_view name) const {
  const GgufTensor& found = tensor_info(name);
  const GgmlTypeInfo* type = ggml_type_info(found.type);
  if (type == nullptr || !type->readable) {
    fail_with_hint(
        "dllm reads F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS "
        "MXFP4",
        Code::unimplemented, "{}: tensor {} is stored as {}, which dllm does not read", name_, name,
        found.type_name);
  }
  return found;
}

void GgufFile::dequantize(std::string_view name, std::span<float> dst, int64_t row_begin,
                          int64_t row_end) const {
  const GgufTensor& found = readable(name);
  const GgmlTypeInfo& type = *ggml_type_info(found.type);
  const int64_t row = found.shape.rank() > 0 ? found.shape.dim(-1) : 1;
  const int64_t rows = row > 0 ? found.shape.count() / row : 0;
  if (row_begin < 0 || row_end < row_begin || row_end > rows) {
    fail(Code::out_of_range, "{}: rows {} to {} are not in tensor {} of {} rows", name_, row_begin,
         row_end, name, rows);
  }
  const int64_t count = (row_end - row_begin) * row;
  if (static_cast<int64_t>(dst.size()) != count) {
    fail(Code::invalid_argument, "{}: {} numbers of tensor {} do not fit into an array of {}",
         name_, count, name, dst.size());
  }
  if (count == 0) return;
  // Reads a few rows at a time, so that the bytes of the file need little memory.
  constexpr int64_t kChunk = int64_t{1} << 20;
  const int64_t row_bytes = row / type.block * type.bytes;
  const int64_t step = std::max<int64_t>(1, kChunk / row_bytes);
  for (int64_t at = row_begin; at < row_end; at += step) {
    const int64_t take = std::min(step, row_end - at);
    const Bytes blocks = content(found).read(found.begin + at * row_bytes, take * row_bytes);
    dequantize_blocks(found.type, blocks.data(), dst.data() + (at - row_begin) * row, take * row);
  }
}

void GgufFile::read_stored(std::string_view name, std::byte* to, int64_t row_begin, int64_t row_end,
                           const Task* task) const {
  constexpr int64_t kChunk = int64_t{1} << 20;
  const GgufTensor& found = readable(name);
  const GgmlTypeInfo& type = *ggml_type_info(found.type);
  const int64_t row = found.shape.rank() > 0 ? found.shape.dim(-1) : 1;
  const int64_t rows = row > 0 ? found.shape.count() / row : 0;
  if (row_begin < 0 || row_end < row_begin || row_end > rows) {
    fail(Code::out_of_range, "{}: rows {} to {} are not in tensor {} of {} rows", name_, row_begin,
         row_end, name, rows);
  }
  const int64_t row_bytes = row / type.block * type.bytes;
  const int64_t from = found.begin + row_begin * row_bytes;
  in_pieces((row_end - row_begin) * row_bytes, kChunk, task, [&](int64_t begin, int64_t end) {
    const Bytes part = content(found).read(from + begin, end - begin);
    std::memcpy(to + begin, part.data(), static_cast<size_t>(end - begin));
  });
}

void GgufFile::read_stored(std::string_view name, std::byte* to, const Box& box,
                           const Task* task) const {
  const GgufTensor& found = readable(name);
  const GgmlTypeInfo& type = *ggml_type_info(found.type);
  const int64_t row = found.shape.rank() > 0 ? found.shape.dim(-1) : 1;
  const int64_t rows = row > 0 ? found.shape.count() / row : 0;
  const int64_t first = box.begin[1], count = box.shape[1];
  if (box.begin[0] < 0 || box.begin[0] + box.shape[0] > rows || first < 0 || first + count > row ||
      first % type.block != 0 || count % type.block != 0) {
    fail(Code::out_of_range, "{}: {} numbers at ({}, {}) are not whole blocks of tensor {} {}",
         name_, box.shape.text(), box.begin[0], first, name, found.shape.text());
  }
  const auto bytes = [&](int64_t numbers) { return numbers / type.block * type.bytes; };
  read_box(content(found), found.begin, 1, {rows, bytes(row)},
           {{box.begin[0], bytes(first)}, {box.shape[0], bytes(count)}}, to, task);
}

Tensor GgufFile::tensor(std::string_view name) const {
  const GgufTensor& found = readable(name);
  const auto dtype = plain_dtype(found.type);
  if (!dtype) {
    Tensor numbers(DType::f32, found.shape);
    const int64_t row = found.shape.rank() > 0 ? found.shape.dim(-1) : 1;
    dequantize(name, numbers.mutable_as<float>(), 0, row > 0 ? found.shape.count() / row : 0);
    return numbers;
  }
  const Bytes part = content(found).read(found.begin, found.end - found.begin);
  return view_or_copy(*dtype, found.shape, part);
}

namespace {

std::string text_or_empty(const GgufFile& file, const char* key) {
  return file.has(key) ? file.text(key) : "";
}

std::optional<bool> flag(const GgufFile& file, const char* key) {
  if (!file.has(key)) return std::nullopt;
  return file.boolean(key);
}

std::optional<int64_t> token_id(const GgufFile& file, const char* key, size_t tokens) {
  if (!file.has(key)) return std::nullopt;
  const int64_t id = file.integer(key);
  constexpr int64_t kNone = 0xFFFFFFFF; // some converters write -1 as u32 for a missing token
  if (id == kNone || id == -1) return std::nullopt;
  if (id < 0 || id >= static_cast<int64_t>(tokens)) {
    fail(Code::data_loss, "{}: {} is {}, the vocabulary has {} tokens", file.name(), key, id,
         tokens);
  }
  return id;
}

void check_length(const GgufFile& file, const char* key, size_t found, size_t tokens) {
  if (found != tokens) {
    fail(Code::data_loss, "{}: {} holds {} entries, expected {} as there are tokens", file.name(),
         key, found, tokens);
  }
}

} // namespace

GgufVocabulary read_gguf_vocabulary(const GgufFile& file) {
  GgufVocabulary made;
  made.name = file.name();
  made.model = file.text("tokenizer.ggml.model");
  made.pre = text_or_empty(file, "tokenizer.ggml.pre");
  made.tokens = file.texts("tokenizer.ggml.tokens");
  const size_t count = made.tokens.size();
  if (file.has("tokenizer.ggml.token_type")) {
    for (const int64_t type : file.integers("tokenizer.ggml.token_type")) {
      made.types.push_back(static_cast<int32_t>(type));
    }
    check_length(file, "tokenizer.ggml.token_type", made.types.size(), count);
  }
  if (file.has("tokenizer.ggml.scores")) {
    for (const double score : file.numbers("tokenizer.ggml.scores"))
      made.scores.push_back(static_cast<float>(score));
    check_length(file, "tokenizer.ggml.scores", made.scores.size(), count);
  }
  if (file.has("tokenizer.ggml.merges")) made.merges = file.texts("tokenizer.ggml.merges");
  made.bos = token_id(file, "tokenizer.ggml.bos_token_id", count);
  made.eos = token_id(file, "tokenizer.ggml.eos_token_id", count);
  made.eot = token_id(file, "tokenizer.ggml.eot_token_id", count);
  made.eom = token_id(file, "tokenizer.ggml.eom_token_id", count);
  made.unknown = token_id(file, "tokenizer.ggml.unknown_token_id", count);
  made.padding = token_id(file, "tokenizer.ggml.padding_token_id", count);
  made.mask = token_id(file, "tokenizer.ggml.mask_token_id", count);
  made.add_bos = flag(file, "tokenizer.ggml.add_bos_token");
  made.add_eos = flag(file, "tokenizer.ggml.add_eos_token");
  made.add_space_prefix = flag(file, "tokenizer.ggml.add_space_prefix");
  made.chat_template = text_or_empty(file, "tokenizer.chat_template");
  return made;
}

} // namespace dllm::ckpt
