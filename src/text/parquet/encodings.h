#pragma once
// The encodings of numbers and texts in Parquet's pages. https://parquet.apache.org/docs/file-format/data-pages/encodings
// They read bytes of which nothing is checked; data_loss, with `where` in front, when those end or mean nothing.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm {
class Task;
} // namespace dllm

namespace dllm::text::parquet {

// Codes of the file.
constexpr int64_t kPlain = 0, kPlainDictionary = 2, kRle = 3, kDeltaLength = 6, kDeltaBytes = 7,
                  kRleDictionary = 8;

// Runs of one number, and numbers of `width` bits laid end to end.
class HybridReader {
public:
  HybridReader() = default;
  // width: 0 to 32; 0: every number is 0, and no bytes are read.
  HybridReader(std::string_view bytes, int width) : bytes_(bytes), width_(width) {}
  uint32_t next(const std::string& where);

private:
  std::string_view bytes_;
  int width_ = 0;
  uint64_t run_ = 0;    // numbers left of a run
  uint64_t packed_ = 0; // numbers left that are packed
  uint32_t value_ = 0;  // of the run
  uint64_t bits_ = 0;   // read and not used yet
  int bit_count_ = 0;
};

// Where each text of a dictionary lies in its page.
struct Dictionary {
  std::string_view bytes;
  std::vector<uint32_t> begins; // of the length in front of a text
};
Dictionary read_dictionary(std::string_view bytes, int64_t count, const std::string& where,
                           const Task* task);

// The texts of a page, in order.
class TextValues {
public:
  TextValues() = default;
  // encoding: PLAIN, the two names of dictionary indices, DELTA_LENGTH_BYTE_ARRAY or DELTA_BYTE_ARRAY; others are
  // unimplemented. dictionary: null without one. count: at least as many as are taken. Bytes and dictionary outlive it.
  TextValues(int64_t encoding, std::string_view bytes, const Dictionary* dictionary, int64_t count,
             const std::string& where, const Task* task);
  // Valid until the next call.
  std::string_view next(const std::string& where);

private:
  std::string_view take(int64_t size, const std::string& where);

  int64_t encoding_ = kPlain;
  std::string_view bytes_;
  const Dictionary* dictionary_ = nullptr;
  HybridReader indices_;
  std::vector<int32_t> prefixes_, lengths_;
  size_t at_ = 0; // in lengths_
  std::string text_;
};

} // namespace dllm::text::parquet
