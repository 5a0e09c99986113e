#pragma once
// The GGUF format, versions 2 and 3 (ggml docs, gguf.md): typed metadata, tensor table, aligned
// data. Little-endian.

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

// One metadata value: its checked bytes, decoded at each access.
struct GgufValue {
  GgufType type = GgufType::u8; // of the value, or of the elements of an array
  bool is_array = false;
  int64_t count = 1; // elements
  Bytes raw;         // the elements as in the file
};

// Storage types of ggml that we read. Numbers are those of the file.
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
  bool readable;    // false: known, so that sizes are checked, but not dequantized
};

// Null for numbers that no version of the format used when this was written.
const GgmlTypeInfo* ggml_type_info(uint32_t type);
// Blocks of one type to f32. REQUIRES: count is a multiple of the block, src holds its bytes, the
// type is readable.
void dequantize_blocks(uint32_t type, const std::byte* src, float* dst, int64_t count);

// The weight format that has the same bytes, and the inverse; null or empty when there is none.
const WeightFormat* ggml_weight_format(uint32_t type);
std::optional<uint32_t> ggml_type_of(const WeightFormat& format);

struct GgufTensor {
  uint32_t type = 0;     // GgmlType, or a number we do not read
  std::string type_name; // "Q4_1"
  Shape shape;           // row-major: the file's dimensions reversed
  int64_t begin = 0; // byte range in the file; end == begin when the size of the type is not known
  int64_t end = 0;
  size_t part = 0; // of a split file
};

// A file that was checked whole when it was opened, or several of gguf-split as one. Reads are lock-free from any thread. Errors
// name the file, the key or tensor, and the expected and found numbers; a file on disk that changed
// since it was opened is data_loss.
class GgufFile {
public:
  GgufFile(ContentRef content, std::string name);
  GgufFile(Bytes bytes, std::string name);

  // The tensors of the next part; data_loss for one that is there already.
  void append(GgufFile part);
  // Whether the parts are those that "split.count", "split.no" and "split.tensors.count" announce: failed_precondition for a
  // part alone, else data_loss. The keys are forgotten: the file is whole.
  void check_parts();

  const std::string& name() const { return name_; }
  uint32_t version() const { return version_; }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  const std::map<std::string, GgufTensor, std::less<>>& tensors() const { return tensors_; }

  // Metadata by key. not_found names the nearest key; a value of another type is data_loss.
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
  // Rows [row_begin, row_end) as f32; a row is the last axis, rows count over all the others.
  // dst.size() must be (row_end - row_begin) x row length. Any thread; callers cut the rows among
  // threads.
  void dequantize(std::string_view name, std::span<float> dst, int64_t row_begin,
                  int64_t row_end) const;
  // The bytes of rows [row_begin, row_end) as in the file. The task is checked every MB.
  void read_stored(std::string_view name, std::byte* to, int64_t row_begin, int64_t row_end,
                   const Task* task = nullptr) const;
  // The bytes of some rows and columns, box (rows, columns) of all rows; columns begin and end between blocks. Of the file no
  // more is read than that and small gaps.
  void read_stored(std::string_view name, std::byte* to, const Box& box,
                   const Task* task = nullptr) const;
  // F32, F16, BF16, F64 and integer types as they are (a view where aligned); quantized types as
  // f32.
  Tensor tensor(std::string_view name) const;

private:
  const GgufValue& typed(std::string_view key, bool is_array, const char* wanted) const;
  const GgufTensor& readable(std::string_view name) const;

  const Content& content(const GgufTensor& tensor) const { return *contents_[tensor.part]; }

  std::vector<ContentRef> contents_; // by part
  std::vector<int64_t> numbers_;     // "split.no" of each part; -1: it has none
  std::string name_;
  uint32_t version_ = 0;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::map<std::string, GgufTensor, std::less<>> tensors_;
};

// The tokenizer that a GGUF file carries, as plain data. `text` makes a tokenizer of it.

struct GgufVocabulary {
  std::string model;               // "gpt2": byte-level BPE, "llama": SentencePiece
  std::string pre;                 // name of the pre-tokenizer ("smollm", "qwen2"); may be empty
  std::vector<std::string> tokens; // by id
  std::vector<int32_t>
      types; // 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte; may be empty
  std::vector<float> scores;       // may be empty
  std::vector<std::string> merges; // "left right", best first; may be empty
  std::optional<int64_t> bos, eos, eot, eom, unknown, padding, mask;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
  std::string chat_template; // may be empty
  std::string name = "gguf"; // of the file, for errors
};

// Fails with not_found when the file has no tokens, data_loss when lists do not fit each other or
// an id is no token.
GgufVocabulary read_gguf_vocabulary(const GgufFile& file);

} // namespace dllm::ckpt
