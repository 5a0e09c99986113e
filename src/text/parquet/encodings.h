#pragma once
// These readers decode numbers and texts in Parquet pages.
// https://parquet.apache.org/docs/file-format/data-pages/encodings
// The bytes may have any content. When they end too early or are invalid, a reader fails with
// data_loss, and the error begins with `where`.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm {
class Task;
} // namespace dllm

namespace dllm::text::parquet {

// Codes of the encodings in the file.
constexpr int64_t kPlain = 0, kPlainDictionary = 2, kRle = 3, kDeltaLength = 6, kDeltaBytes = 7,
                  kRleDictionary = 8;

// Reads runs of one number, and numbers of `width` bits that are packed without gaps.
class HybridReader {
public:
  HybridReader() = default;
  // width: bits of a number, 0 to 32. With width 0 every number is 0 and no byte is read.
  HybridReader(std::string_view bytes, int width) : bytes_(bytes), width_(width) {}
  uint32_t next(const std::string& where);

private:
  std::string_view bytes_;
  int width_ = 0;
  uint64_t run_ = 0;    // numbers left in a run
  uint64_t packed_ = 0; // packed numbers left
  uint32_t value_ = 0;  // the number of the run
  uint64_t bits_ = 0;   // bits that were read and not used yet
  int bit_count_ = 0;
};

// The texts of a dictionary page.
struct Dictionary {
  std::string_view bytes;       // the page
  std::vector<uint32_t> begins; // by text: offset in `bytes` of its length, which precedes the text
};
Dictionary read_dictionary(std::string_view bytes, int64_t count, const std::string& where,
                           const Task* task);

// Reads the texts of a page in order.
class TextValues {
public:
  TextValues() = default;
  // encoding: PLAIN, PLAIN_DICTIONARY, RLE_DICTIONARY, DELTA_LENGTH_BYTE_ARRAY or
  // DELTA_BYTE_ARRAY; fails with unimplemented for other encodings. dictionary may be null. count
  // is at least the number of calls of next(). Bytes and dictionary outlive this object.
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
  size_t at_ = 0; // index in lengths_ of the next text
  std::string text_;
};

} // namespace dllm::text::parquet
