#pragma once
// A GgufFile reads the GGUF format, versions 2 and 3 (ggml docs, gguf.md). A file holds typed
// metadata, a table of tensors and aligned data, all little-endian.

#include "base/files.h"
#include "tensor/box.h"
#include "tensor/tensor.h"
#include "tensor/weight_format.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dllm {
class Task;
}

namespace dllm::ckpt {

enum class GgufType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  text = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

// One metadata value. The bytes were checked when the file was opened; every access decodes them.
struct GgufValue {
  GgufType type = GgufType::u8; // type of the value, or of the elements of an array
  bool is_array = false;
  int64_t count = 1; // number of elements
  Bytes raw;         // the elements as stored in the file
};

// The storage types of ggml that dllm reads, with their numbers in the file.
enum class GgmlType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq4_nl = 20,
  iq4_xs = 23,
  i8 = 24,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  bf16 = 30,
  mxfp4 = 39,
};

struct GgmlTypeInfo {
  const char* name; // "Q4_1"
  int64_t block;    // elements per block along a row
  int64_t bytes;    // bytes per block
  bool readable;    // false: dllm checks sizes of the type but cannot dequantize it
};

// Returns null for a number that dllm does not know.
const GgmlTypeInfo* ggml_type_info(uint32_t type);
// Converts blocks of `count` elements to f32. REQUIRES: the type is readable, count is a multiple
// of its block, and src holds the bytes of the blocks.
void dequantize_blocks(uint32_t type, const std::byte* src, float* dst, int64_t count);

// Return the weight format with the same bytes as a type, and the type of a format; null or empty
// if there is none.
const WeightFormat* ggml_weight_format(uint32_t type);
std::optional<uint32_t> ggml_type_of(const WeightFormat& format);
// Returns general.file_type of a file whose matrices have the format.
uint32_t gguf_file_type(const WeightFormat& format);

struct GgufTensor {
  uint32_t type = 0;     // a GgmlType, or a number that dllm does not read
  std::string type_name; // "Q4_1"
  Shape shape;           // row-major, which reverses the dimensions in the file
  int64_t begin = 0; // byte range in the file; end == begin if the size of the type is not known
  int64_t end = 0;
  size_t part = 0; // index of the part of a split file
};

// A GGUF file, or the parts that gguf-split made of one. The constructor checks the whole header.
// Reads are lock-free from any thread. Errors name the file, the key or tensor, and the expected
// and found numbers. Reads fail with data_loss if the file on disk has changed since it was opened.
class GgufFile {
public:
  GgufFile(ContentRef content, std::string name);
  GgufFile(Bytes bytes, std::string name);

  // Adds the tensors of the next part. Fails with data_loss for a tensor that is in two parts.
  void append(GgufFile part);
  // Compares the parts with the keys "split.count", "split.no" and "split.tensors.count", then
  // removes these keys. Fails with failed_precondition for a wrong number of parts, with data_loss
  // for wrong numbers in a part.
  void check_parts();

  const std::string& name() const { return name_; }
  uint32_t version() const { return version_; }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  const std::map<std::string, GgufTensor, std::less<>>& tensors() const { return tensors_; }

  // Return metadata by key. Fail with not_found, naming the nearest key, and with data_loss for a
  // value of another type.
  bool has(std::string_view key) const { return metadata_.find(key) != metadata_.end(); }
  const GgufValue& value(std::string_view key) const;
  int64_t integer(std::string_view key) const; // any integer type
  double number(std::string_view key) const;   // any number type
  bool boolean(std::string_view key) const;
  std::string text(std::string_view key) const;
  std::vector<int64_t> integers(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;
  std::vector<std::string> texts(std::string_view key) const;

  bool has_tensor(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }
  const GgufTensor& tensor_info(std::string_view name) const;
  // Writes rows [row_begin, row_end) as f32 to dst, of size (row_end - row_begin) x row length.
  // Rows run along the last axis and are counted over all other axes. Any thread; the caller may
  // deal the rows to several threads.
  void dequantize(std::string_view name, std::span<float> dst, int64_t row_begin,
                  int64_t row_end) const;
  // Copies the bytes of rows [row_begin, row_end) as stored in the file. Checks the task every MB.
  void read_stored(std::string_view name, std::byte* to, int64_t row_begin, int64_t row_end,
                   const Task* task = nullptr) const;
  // Copies the bytes of some rows and columns: `box` is cut from (rows, row length). Columns must
  // begin and end at a block. Reads no more of the file than these bytes and small gaps.
  void read_stored(std::string_view name, std::byte* to, const Box& box,
                   const Task* task = nullptr) const;
  // Returns F32, F16, BF16, F64 and integer types in their own type (a view where aligned) and
  // quantized types as f32.
  Tensor tensor(std::string_view name) const;

private:
  const GgufValue& typed(std::string_view key, bool is_array, const char* wanted) const;
  const GgufTensor& readable(std::string_view name) const;

  const Content& content(const GgufTensor& tensor) const { return *contents_[tensor.part]; }

  std::vector<ContentRef> contents_; // by part
  std::vector<int64_t> numbers_;     // "split.no" of each part; -1 without the key
  std::string name_;
  uint32_t version_ = 0;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::map<std::string, GgufTensor, std::less<>> tensors_;
};

// The tokenizer data of a GGUF file, of which src/text makes a tokenizer.
struct GgufVocabulary {
  std::string model;               // "gpt2": byte-level BPE, "llama": SentencePiece
  std::string pre;                 // name of the pre-tokenizer ("smollm", "qwen2"); may be empty
  std::vector<std::string> tokens; // by id
  // 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte; may be empty
  std::vector<int32_t> types;
  std::vector<float> scores;       // may be empty
  std::vector<std::string> merges; // "left right", best first; may be empty
  std::optional<int64_t> bos, eos, eot, eom, unknown, padding, mask;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
  std::string chat_template; // may be empty
  std::string name = "gguf"; // name of the file, for errors
};

// Reads the tokenizer data. Fails with not_found for a file without tokens, with data_loss when
// lists have different lengths or an id is out of range.
GgufVocabulary read_gguf_vocabulary(const GgufFile& file);

} // namespace dllm::ckpt
