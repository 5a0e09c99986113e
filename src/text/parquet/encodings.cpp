#include "text/parquet/encodings.h"

#include "base/error.h"
#include "base/task.h"
#include "text/parquet/footer.h"

#include <algorithm>
#include <cstring>

namespace dllm::text::parquet {

namespace {

[[noreturn]] void bad(const std::string& where, const char* what) {
  fail_with_hint(kCopyHint, Code::data_loss, "{}: a page is damaged: {}", where, what);
}

uint8_t take_byte(std::string_view& bytes, const std::string& where) {
  if (bytes.empty()) bad(where, "its numbers end early");
  const auto byte = static_cast<uint8_t>(bytes.front());
  bytes.remove_prefix(1);
  return byte;
}

uint64_t take_varint(std::string_view& bytes, const std::string& where) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint8_t next = take_byte(bytes, where);
    value |= static_cast<uint64_t>(next & 0x7F) << shift;
    if (next < 0x80) return value;
  }
  bad(where, "a number has more than 64 bits");
}

uint32_t read_u32(const char* from) {
  uint32_t value;
  std::memcpy(&value, from, sizeof value); // little-endian, as the files are
  return value;
}

} // namespace

uint32_t HybridReader::next(const std::string& where) {
  if (width_ == 0) return 0;
  while (run_ == 0 && packed_ == 0) {
    const uint64_t head = take_varint(bytes_, where);
    if ((head & 1) != 0) {
      packed_ = (head >> 1) * 8;
      bits_ = 0;
      bit_count_ = 0;
      continue;
    }
    run_ = head >> 1;
    value_ = 0;
    for (int shift = 0; shift < width_; shift += 8)
      value_ |= static_cast<uint32_t>(take_byte(bytes_, where)) << shift;
  }
  if (run_ > 0) {
    --run_;
    return value_;
  }
  --packed_;
  while (bit_count_ < width_) {
    bits_ |= static_cast<uint64_t>(take_byte(bytes_, where)) << bit_count_;
    bit_count_ += 8;
  }
  const auto value = static_cast<uint32_t>(bits_ & ((uint64_t{1} << width_) - 1));
  bits_ >>= width_;
  bit_count_ -= width_;
  return value;
}

Dictionary read_dictionary(std::string_view bytes, int64_t count, const std::string& where,
                           const Task* task) {
  if (count > static_cast<int64_t>(bytes.size() / 4)) bad(where, "its dictionary is cut");
  Dictionary dictionary{bytes, {}};
  dictionary.begins.reserve(static_cast<size_t>(count));
  size_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (i % 65536 == 0) check_task(task);
    if (bytes.size() - at < 4) bad(where, "its dictionary is cut");
    const uint32_t size = read_u32(bytes.data() + at);
    dictionary.begins.push_back(static_cast<uint32_t>(at));
    at += 4;
    if (size > bytes.size() - at) bad(where, "a text of its dictionary is cut");
    at += size;
  }
  return dictionary;
}

namespace {

// Reads at most `count` lengths with the encoding DELTA_BINARY_PACKED. Leaves the bytes after them
// in `bytes`.
std::vector<int32_t> take_lengths(std::string_view& bytes, int64_t count, const std::string& where,
                                  const Task* task) {
  const uint64_t block = take_varint(bytes, where), minis = take_varint(bytes, where);
  const uint64_t total = take_varint(bytes, where);
  const auto unzig = [](uint64_t v) { return (v >> 1) ^ (~(v & 1) + 1); };
  uint64_t value = unzig(take_varint(bytes, where)); // sums wrap around
  if (total > static_cast<uint64_t>(count)) bad(where, "it has more lengths than values");
  if (block == 0 || block > (1 << 20) || minis == 0 || minis > block || block % minis != 0)
    bad(where, "its blocks have no size");
  const uint64_t per_mini = block / minis;
  if (per_mini % 8 != 0) bad(where, "the size of its blocks is not a multiple of 8");
  std::vector<int32_t> lengths;
  const auto add = [&] {
    if (value > INT32_MAX) bad(where, "a length is negative or too large");
    lengths.push_back(static_cast<int32_t>(value));
  };
  if (total > 0) add();
  while (lengths.size() < total) {
    check_task(task);
    const uint64_t least = unzig(take_varint(bytes, where));
    if (bytes.size() < minis) bad(where, "its numbers end early");
    const std::string_view widths = bytes.substr(0, minis);
    bytes.remove_prefix(minis);
    for (uint64_t mini = 0; mini < minis && lengths.size() < total; ++mini) {
      const auto width = static_cast<uint8_t>(widths[mini]);
      if (width > 32) bad(where, "a length has more than 32 bits");
      const uint64_t size = per_mini * width / 8;
      if (size > bytes.size()) bad(where, "its numbers end early");
      const char* packed = bytes.data();
      uint64_t bits = 0;
      int held = 0;
      for (uint64_t i = 0; i < per_mini && lengths.size() < total; ++i) {
        for (; held < width; held += 8)
          bits |= static_cast<uint64_t>(static_cast<uint8_t>(*packed++)) << held;
        value += least + (bits & ((uint64_t{1} << width) - 1));
        bits >>= width;
        held -= width;
        add();
      }
      bytes.remove_prefix(size);
    }
  }
  return lengths;
}

} // namespace

TextValues::TextValues(int64_t encoding, std::string_view bytes, const Dictionary* dictionary,
                       int64_t count, const std::string& where, const Task* task)
    : encoding_(encoding), bytes_(bytes) {
  switch (encoding) {
  case kPlain: return;
  case kPlainDictionary:
  case kRleDictionary: {
    if (dictionary == nullptr) bad(where, "it has no dictionary");
    encoding_ = kRleDictionary;
    dictionary_ = dictionary;
    if (bytes.empty()) return; // nulls alone
    const uint8_t width = take_byte(bytes, where);
    if (width > 32) bad(where, "an index has more than 32 bits");
    indices_ = HybridReader(bytes, width);
    return;
  }
  case kDeltaBytes:
    if (bytes.empty()) return; // nulls alone
    prefixes_ = take_lengths(bytes_, count, where, task);
    [[fallthrough]];
  case kDeltaLength:
    if (!bytes_.empty() || !prefixes_.empty()) lengths_ = take_lengths(bytes_, count, where, task);
    return;
  default:
    fail_with_hint("write the file with the encoding PLAIN or a dictionary", Code::unimplemented,
                   "{}: a page is in encoding {}, expected 0, 2, 6, 7 or 8", where, encoding);
  }
}

std::string_view TextValues::take(int64_t size, const std::string& where) {
  if (size > static_cast<int64_t>(bytes_.size())) bad(where, "a text is cut");
  const std::string_view text = bytes_.substr(0, static_cast<size_t>(size));
  bytes_.remove_prefix(text.size());
  return text;
}

std::string_view TextValues::next(const std::string& where) {
  if (encoding_ == kPlain) {
    const uint32_t size = read_u32(take(4, where).data());
    return take(size, where);
  }
  if (encoding_ == kRleDictionary) {
    const uint32_t index = indices_.next(where);
    if (index >= dictionary_->begins.size()) bad(where, "an index is outside of its dictionary");
    const size_t begin = dictionary_->begins[index];
    return dictionary_->bytes.substr(begin + 4, read_u32(dictionary_->bytes.data() + begin));
  }
  if (at_ >= lengths_.size()) bad(where, "it has fewer lengths than values");
  const std::string_view rest = take(lengths_[at_], where);
  if (encoding_ == kDeltaLength) {
    ++at_;
    return rest;
  }
  if (at_ >= prefixes_.size()) bad(where, "it has fewer lengths than values");
  const auto prefix = static_cast<size_t>(prefixes_[at_++]);
  if (prefix > text_.size()) bad(where, "it repeats more than the text before has");
  text_.resize(prefix);
  text_ += rest;
  return text_;
}

} // namespace dllm::text::parquet
