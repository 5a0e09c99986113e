// Opens GGUF files and checks everything once.

#include "base/error.h"
#include "ckpt/gguf/gguf.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace dllm::ckpt {
namespace {

constexpr uint64_t kMaxAxes = 8; // ggml itself has 4
constexpr int kMaxArrayDepth = 4;
constexpr uint64_t kDefaultAlignment = 32;

int64_t scalar_size(GgufType type) {
  switch (type) {
  case GgufType::u8:
  case GgufType::i8:
  case GgufType::boolean: return 1;
  case GgufType::u16:
  case GgufType::i16: return 2;
  case GgufType::u32:
  case GgufType::i32:
  case GgufType::f32: return 4;
  case GgufType::u64:
  case GgufType::i64:
  case GgufType::f64: return 8;
  default: return 0;
  }
}

// Reads from front to back, and holds a window of the content. Compares every length with the bytes
// that are left before using it, so it never reads past the end.
class Cursor {
public:
  Cursor(const Content& content, const std::string& file) : content_(content), file_(file) {}

  int64_t at() const { return at_; }
  uint64_t left() const { return static_cast<uint64_t>(content_.size() - at_); }
  const Content& content() const { return content_; }
  const std::string& file() const { return file_; }

  void skip(uint64_t size, const char* what) {
    if (size > left()) {
      fail_with_hint("is the download complete?", Code::data_loss,
                     "{}: {} at byte {} wants {} bytes, found {}", file_, what, at_, size, left());
    }
    at_ += static_cast<int64_t>(size);
  }

  template <class T> T read(const char* what) {
    const int64_t from = at_;
    skip(sizeof(T), what);
    T value;
    std::memcpy(&value, window(from, sizeof value).data(), sizeof value);
    return value;
  }

  // Valid until the next read.
  std::string_view text(const char* what) {
    const auto size = read<uint64_t>(what);
    const int64_t from = at_;
    skip(size, what);
    return window(from, static_cast<int64_t>(size));
  }
  void skip_text() { skip(read<uint64_t>("a text"), "a text"); }

private:
  std::string_view window(int64_t from, int64_t size) {
    constexpr int64_t kWindow = int64_t{1} << 18;
    const auto held = static_cast<int64_t>(window_.size());
    if (from < begin_ || from + size > begin_ + held) {
      window_ = content_.read(from, std::min(std::max(size, kWindow), content_.size() - from));
      begin_ = from;
    }
    return window_.text().substr(static_cast<size_t>(from - begin_), static_cast<size_t>(size));
  }

  const Content& content_;
  const std::string& file_;
  int64_t at_ = 0;
  int64_t begin_ = 0; // byte at which the window begins
  Bytes window_;
};

GgufType read_type(Cursor& cursor, std::string_view key) {
  const auto number = cursor.read<uint32_t>("a value type");
  if (number > static_cast<uint32_t>(GgufType::f64)) {
    fail(Code::data_loss, "{}: key {} has the value type {}, expected 0 to 12", cursor.file(), key,
         number);
  }
  return static_cast<GgufType>(number);
}

void skip_elements(Cursor& cursor, GgufType type, uint64_t count, std::string_view key, int depth) {
  constexpr uint64_t kSmallestText = 8, kSmallestArray = 12; // bytes of an empty text and array
  const int64_t size = scalar_size(type);
  const uint64_t smallest = size > 0                 ? static_cast<uint64_t>(size)
                            : type == GgufType::text ? kSmallestText
                                                     : kSmallestArray;
  if (count > cursor.left() / smallest) {
    fail(Code::data_loss, "{}: key {} announces {} elements, {} bytes are left", cursor.file(), key,
         count, cursor.left());
  }
  if (size > 0) return cursor.skip(count * smallest, "a list");
  for (uint64_t i = 0; i < count; ++i) {
    if (type == GgufType::text) {
      cursor.skip_text();
      continue;
    }
    if (depth >= kMaxArrayDepth) {
      fail(Code::data_loss, "{}: key {} nests lists deeper than {}", cursor.file(), key,
           kMaxArrayDepth);
    }
    const GgufType inner = read_type(cursor, key);
    const auto inner_count = cursor.read<uint64_t>("a list length");
    skip_elements(cursor, inner, inner_count, key, depth + 1);
  }
}

GgufValue read_value(Cursor& cursor, std::string_view key) {
  GgufValue value;
  value.type = read_type(cursor, key);
  uint64_t count = 1;
  if (value.type == GgufType::array) {
    value.is_array = true;
    value.type = read_type(cursor, key);
    count = cursor.read<uint64_t>("a list length");
  }
  const int64_t from = cursor.at();
  skip_elements(cursor, value.type, count, key, 1);
  value.count = static_cast<int64_t>(count);
  value.raw = cursor.content().read(from, cursor.at() - from);
  return value;
}

// Reads an entry of the tensor table. In the result `begin` is an offset into the data section and
// `end` the number of bytes.
GgufTensor read_tensor(Cursor& cursor, const std::string& name) {
  GgufTensor tensor;
  const auto axes = cursor.read<uint32_t>("a tensor rank");
  if (axes > kMaxAxes) {
    fail(Code::data_loss, "{}: tensor {} has {} axes, expected at most {}", cursor.file(), name,
         axes, kMaxAxes);
  }
  std::vector<int64_t> dims;
  for (uint32_t i = 0; i < axes; ++i) {
    const auto extent = cursor.read<uint64_t>("a tensor extent");
    if (extent == 0 || extent > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      fail(Code::data_loss, "{}: tensor {} has the extent {}", cursor.file(), name, extent);
    }
    dims.insert(dims.begin(), static_cast<int64_t>(extent));
  }
  tensor.type = cursor.read<uint32_t>("a tensor type");
  const auto offset = cursor.read<uint64_t>("a tensor offset");
  if (offset > static_cast<uint64_t>(cursor.content().size())) {
    fail(Code::data_loss, "{}: tensor {} begins at byte {} of the data, found {} bytes",
         cursor.file(), name, offset, cursor.content().size());
  }
  tensor.begin = static_cast<int64_t>(offset);

  const GgmlTypeInfo* type = ggml_type_info(tensor.type);
  tensor.type_name = type != nullptr ? type->name : fmt::format("type {}", tensor.type);
  try {
    tensor.shape = checked_shape(std::move(dims), 8, "tensor " + name);
  } catch (const Error& e) {
    fail(Code::data_loss, "{}: {}", cursor.file(), e.text());
  }
  if (type == nullptr) {
    // A shape that the file cannot hold is refused even for an unknown type, because readers
    // allocate buffers by it.
    constexpr int64_t kMostPerByte = 8;
    const int64_t bytes = cursor.content().size();
    if (tensor.shape.count() / kMostPerByte > bytes) {
      fail(Code::data_loss, "{}: tensor {} has the shape {}, the file {} bytes", cursor.file(),
           name, tensor.shape.text(), bytes);
    }
    return tensor;
  }
  const int64_t row = tensor.shape.rank() > 0 ? tensor.shape.dim(-1) : 1;
  if (row % type->block != 0) {
    fail(Code::data_loss, "{}: tensor {} has rows of {} numbers, {} wants a multiple of {}",
         cursor.file(), name, row, type->name, type->block);
  }
  tensor.end = tensor.shape.count() / type->block * type->bytes;
  return tensor;
}

uint64_t alignment_of(const std::map<std::string, GgufValue, std::less<>>& metadata,
                      const std::string& file) {
  const auto found = metadata.find("general.alignment");
  if (found == metadata.end()) return kDefaultAlignment;
  uint32_t alignment = 0;
  if (found->second.type == GgufType::u32 && !found->second.is_array) {
    std::memcpy(&alignment, found->second.raw.data(), sizeof alignment);
  }
  constexpr uint32_t kMaxAlignment = 1 << 20;
  if (alignment == 0 || alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0) {
    fail(Code::data_loss, "{}: general.alignment is {}, expected a power of two up to {}", file,
         alignment, kMaxAlignment);
  }
  return alignment;
}

void check_ranges(std::map<std::string, GgufTensor, std::less<>>& tensors, int64_t data_begin,
                  int64_t file_size, const std::string& file) {
  std::vector<std::pair<const std::string*, GgufTensor*>> order;
  for (auto& [name, tensor] : tensors) {
    const int64_t size = tensor.end;
    const int64_t left = std::max<int64_t>(0, file_size - data_begin) - tensor.begin;
    if (size > left) {
      fail_with_hint("is the download complete?", Code::data_loss,
                     "{}: tensor {} is {} {}, expected {} bytes, found {}", file, name,
                     tensor.type_name, tensor.shape.text(), size, std::max<int64_t>(0, left));
    }
    tensor.begin = std::min(tensor.begin + data_begin, file_size);
    tensor.end = tensor.begin + size;
    order.emplace_back(&name, &tensor);
  }
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i].second->begin < order[i - 1].second->end) {
      fail(Code::data_loss, "{}: tensor {} begins at byte {}, inside tensor {} that ends at {}",
           file, *order[i].first, order[i].second->begin, *order[i - 1].first,
           order[i - 1].second->end);
    }
  }
}

} // namespace

GgufFile::GgufFile(Bytes bytes, std::string name)
    : GgufFile(memory_content(std::move(bytes)), std::move(name)) {}

GgufFile::GgufFile(ContentRef content, std::string name)
    : contents_{std::move(content)}, name_(std::move(name)) {
  const Content& bytes = *contents_.front();
  Cursor cursor(bytes, name_);
  if (bytes.size() < 4 || bytes.read(0, 4).text() != "GGUF") {
    fail(Code::data_loss, "{}: a GGUF file begins with the letters GGUF, this one does not", name_);
  }
  cursor.skip(4, "the magic");
  version_ = cursor.read<uint32_t>("the version");
  if (version_ != 2 && version_ != 3) {
    fail(Code::unimplemented, "{}: GGUF version {} is not read, expected 2 or 3 (little-endian)",
         name_, version_);
  }
  const auto tensor_count = cursor.read<uint64_t>("the tensor count");
  const auto key_count = cursor.read<uint64_t>("the key count");
  constexpr uint64_t kSmallestEntry = 12; // an empty name and a type
  if (tensor_count > cursor.left() / kSmallestEntry || key_count > cursor.left() / kSmallestEntry) {
    fail(Code::data_loss, "{}: {} tensors and {} keys are announced, {} bytes are left", name_,
         tensor_count, key_count, cursor.left());
  }
  for (uint64_t i = 0; i < key_count; ++i) {
    const std::string key(cursor.text("a key"));
    if (!metadata_.emplace(key, read_value(cursor, key)).second) {
      fail(Code::data_loss, "{}: the key {} occurs twice", name_, key);
    }
  }
  for (uint64_t i = 0; i < tensor_count; ++i) {
    const std::string tensor(cursor.text("a tensor name"));
    if (!tensors_.emplace(tensor, read_tensor(cursor, tensor)).second) {
      fail(Code::data_loss, "{}: the tensor {} occurs twice", name_, tensor);
    }
  }
  const uint64_t alignment = alignment_of(metadata_, name_);
  const uint64_t data_begin =
      (static_cast<uint64_t>(cursor.at()) + alignment - 1) / alignment * alignment;
  for (const auto& [tensor, info] : tensors_) {
    if (static_cast<uint64_t>(info.begin) % alignment == 0) continue;
    fail(Code::data_loss, "{}: tensor {} begins at byte {} of the data, expected a multiple of {}",
         name_, tensor, info.begin, alignment);
  }
  check_ranges(tensors_, static_cast<int64_t>(data_begin), bytes.size(), name_);
  numbers_.push_back(has("split.no") ? integer("split.no") : -1);
}

void GgufFile::append(GgufFile part) {
  for (auto& [tensor, info] : part.tensors_) {
    info.part = contents_.size();
    if (!tensors_.emplace(tensor, std::move(info)).second)
      fail(Code::data_loss, "{}: the tensor {} is also in an earlier part", part.name_, tensor);
  }
  contents_.push_back(std::move(part.contents_.front()));
  numbers_.push_back(part.numbers_.front());
}

void GgufFile::check_parts() {
  const auto parts = static_cast<int64_t>(contents_.size());
  const int64_t count = has("split.count") ? integer("split.count") : 1;
  if (parts != std::max<int64_t>(1, count)) {
    fail_with_hint("parts are found by their names: x-00001-of-00002.gguf, x-00002-of-00002.gguf",
                   Code::failed_precondition, "{} is part {} of {}, found {} of the parts", name_,
                   numbers_.front() + 1, count, parts);
  }
  for (int64_t i = 0; parts > 1 && i < parts; ++i) {
    if (numbers_[static_cast<size_t>(i)] == i) continue;
    fail(Code::data_loss, "{}: the file of part {} says that it is part {}", name_, i + 1,
         numbers_[static_cast<size_t>(i)] + 1);
  }
  constexpr const char* kTensors = "split.tensors.count";
  const auto found = static_cast<int64_t>(tensors_.size());
  if (has(kTensors) && integer(kTensors) != found)
    fail(Code::data_loss, "{}: its parts hold {} tensors, expected {}", name_, found,
         integer(kTensors));
  for (const char* key : {"split.no", "split.count", kTensors}) {
    if (const auto at = metadata_.find(key); at != metadata_.end()) metadata_.erase(at);
  }
}

} // namespace dllm::ckpt
