#include "ckpt/torch/torch_file.h"

#include "base/error.h"
#include "base/task.h"
#include "ckpt/torch/zip.h"

#include <zlib.h>

#include <cstring>
#include <utility>

namespace dllm::ckpt {
namespace {

constexpr int64_t kMaxPickle = int64_t{32} << 20;
constexpr std::string_view kPickleName = "data.pkl";

// Returns the type of one of torch's storages, in the words of safetensors.
const char* type_of_storage(std::string_view kind) {
  constexpr std::pair<std::string_view, const char*> kTypes[] = {
      {"FloatStorage", "F32"},  {"HalfStorage", "F16"}, {"BFloat16Storage", "BF16"},
      {"DoubleStorage", "F64"}, {"LongStorage", "I64"}, {"IntStorage", "I32"},
      {"ShortStorage", "I16"},  {"CharStorage", "I8"},  {"ByteStorage", "U8"},
      {"BoolStorage", "BOOL"}};
  for (const auto& [name, type] : kTypes) {
    if (name == kind) return type;
  }
  return "?";
}

int64_t size_of_type(const std::string& type) {
  return type == "I16" ? 2 : safetensors_type_size(type);
}

// Returns the folder of the archive ("pytorch_model/"), which holds data.pkl.
std::string archive_folder(const ZipDirectory& zip, const std::string& file) {
  for (const auto& [name, entry] : zip.entries()) {
    if (name == kPickleName) return "";
    if (name.ends_with("/data.pkl")) return name.substr(0, name.size() - kPickleName.size());
  }
  fail(Code::data_loss, "{}: the ZIP file holds no data.pkl: torch.save did not write it", file);
}

Bytes pickle_bytes(const Content& content, const ZipEntry& entry, const std::string& file) {
  if (entry.size > kMaxPickle) {
    fail(Code::data_loss, "{}: the pickle has {} bytes, at most {} are read", file, entry.size,
         kMaxPickle);
  }
  Bytes bytes = content.read(entry.begin, entry.size);
  const uLong found =
      ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
  if (entry.checksum != 0 && found != entry.checksum) {
    fail_with_hint("is the download complete?", Code::data_loss,
                   "{}: the pickle has the checksum {:08x}, expected {:08x}", file, found,
                   entry.checksum);
  }
  return bytes;
}

void check_byte_order(const Content& content, const ZipDirectory& zip, const std::string& folder,
                      const std::string& file) {
  const ZipEntry* entry = zip.find(folder + "byteorder");
  if (entry == nullptr || entry->size > 16) return;
  const Bytes bytes = content.read(entry->begin, entry->size);
  if (bytes.text() != "big") return;
  fail_with_hint("load it and save it again on a little-endian machine", Code::unimplemented,
                 "{}: its numbers are big-endian", file);
}

bool lie_together(const Shape& shape, const std::vector<int64_t>& strides) {
  int64_t expected = 1;
  for (size_t axis = strides.size(); axis-- > 0;) {
    const int64_t extent = shape.dims()[axis];
    if (extent != 1 && strides[axis] != expected) return false;
    expected *= extent;
  }
  return true;
}

// Returns the number of elements from the first to the last, both included; -1 if it is larger than
// `most`. REQUIRES: no extent is 0.
int64_t span_of(const Shape& shape, const std::vector<int64_t>& strides, int64_t most) {
  int64_t last = 0;
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    const int64_t steps = shape.dims()[axis] - 1;
    if (steps == 0) continue;
    if (strides[axis] < 0 || strides[axis] > most / steps) return -1;
    last += steps * strides[axis];
    if (last >= most) return -1;
  }
  return last + 1;
}

// Copies the numbers of a view in row-major order. size: bytes of a number.
void gather(const std::byte* from, const Shape& shape, const std::vector<int64_t>& strides,
            int64_t size, std::byte* to, const Task* task) {
  const auto axes = static_cast<size_t>(shape.rank());
  const int64_t width = shape.dims()[axes - 1], step = strides[axes - 1] * size;
  std::vector<int64_t> index(axes, 0);
  const int64_t rows = shape.count() / width;
  const int64_t rows_per_piece = std::max<int64_t>(1, (int64_t{1} << 20) / width);
  in_pieces(rows, rows_per_piece, task, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t at = 0;
      for (size_t axis = 0; axis + 1 < axes; ++axis) at += index[axis] * strides[axis];
      const std::byte* source = from + at * size;
      for (int64_t i = 0; i < width; ++i, to += size)
        std::memcpy(to, source + i * step, static_cast<size_t>(size));
      for (size_t axis = axes - 1; axis-- > 0;) {
        if (++index[axis] < shape.dims()[axis]) break;
        index[axis] = 0;
      }
    }
  });
}

} // namespace

TorchFile::TorchFile(ContentRef content, std::string name)
    : WeightFile(std::move(content), std::move(name)) {
  if (!is_zip(*content_)) {
    fail_with_hint(
        "load it with torch.load(path, weights_only=True) and save it again with "
        "torch.save, or with save_pretrained",
        Code::unimplemented,
        "{} is not a ZIP file; a bare pickle, as PyTorch before 1.6 wrote it, is not read", name_);
  }
  const ZipDirectory zip(*content_, name_);
  const std::string folder = archive_folder(zip, name_);
  check_byte_order(*content_, zip, folder, name_);
  const Bytes pickle = pickle_bytes(*content_, *zip.find(folder + std::string(kPickleName)), name_);
  for (const PickledTensor& tensor : parse_tensor_pickle(pickle.text(), name_)) {
    const ZipEntry* storage = zip.find(folder + "data/" + tensor.storage);
    if (storage == nullptr) {
      fail_with_hint("is the download complete?", Code::data_loss,
                     "{}: tensor {} is in the entry data/{}, which is missing", name_, tensor.name,
                     tensor.storage);
    }
    add(tensor, *storage);
    Storage& own = storages_[tensor.storage];
    own.name = "data/" + tensor.storage;
    own.entry = *storage;
    storage_of_[tensor.name] = &own;
  }
}

TorchFile::TorchFile(Bytes bytes, std::string name)
    : TorchFile(memory_content(std::move(bytes)), std::move(name)) {}

void TorchFile::compare(const Storage& storage, const Task* task) const {
  constexpr int64_t kPiece = int64_t{4} << 20;
  const ZipEntry& entry = storage.entry;
  if (entry.checksum == 0) return; // the writer of the file left the checksum out
  uLong found = 0;
  in_pieces(entry.size, kPiece, task, [&](int64_t begin, int64_t end) {
    const Bytes piece = content_->read(entry.begin + begin, end - begin);
    found = ::crc32(found, reinterpret_cast<const Bytef*>(piece.data()),
                    static_cast<uInt>(piece.size()));
  });
  if (found == entry.checksum) return;
  fail_with_hint("the file is damaged: is the download complete?", Code::data_loss,
                 "{}: entry {} has the checksum {:08x}, expected {:08x}", name_, storage.name,
                 found, entry.checksum);
}

const TensorInfo& TorchFile::undamaged(std::string_view tensor, const Task* task) const {
  const TensorInfo& found = readable(tensor);
  Storage& storage = *storage_of_.find(tensor)->second;
  std::call_once(storage.compared, [&] { compare(storage, task); });
  return found;
}

void TorchFile::add(const PickledTensor& tensor, const ZipEntry& storage) {
  const int64_t storage_size = storage.size;
  TensorInfo info;
  info.type = type_of_storage(tensor.kind);
  info.dtype = safetensors_dtype(info.type);
  info.file = name_;
  const int64_t size = size_of_type(info.type), elements = tensor.elements;
  if (elements < 0 || elements > storage_size / size) {
    fail_with_hint("is the download complete?", Code::data_loss,
                   "{}: tensor {} is in a storage of {} {} numbers, found {} bytes", name_,
                   tensor.name, elements, info.type, storage_size);
  }
  try {
    info.shape = checked_shape(tensor.shape, size, "tensor " + tensor.name);
  } catch (const Error& e) {
    fail(Code::data_loss, "{}: {}", name_, e.text());
  }
  const int64_t count = info.shape.count();
  const int64_t span = count == 0 ? 0 : span_of(info.shape, tensor.strides, elements);
  if (tensor.offset < 0 || span < 0 || tensor.offset > elements - span) {
    fail(Code::data_loss, "{}: tensor {} {} reaches beyond its storage of {} numbers", name_,
         tensor.name, info.shape.text(), elements);
  }
  // Without this check a small file could describe an array of any size.
  if (count > elements) {
    fail_with_hint("save a contiguous copy of it", Code::unimplemented,
                   "{}: tensor {} {} repeats the numbers of a storage of {}", name_, tensor.name,
                   info.shape.text(), elements);
  }
  info.begin = storage.begin + tensor.offset * size;
  info.end = info.begin + count * size;
  if (count > 0 && !lie_together(info.shape, tensor.strides))
    strided_[tensor.name] = {tensor.strides, span};
  tensors_.emplace(tensor.name, std::move(info));
}

Tensor TorchFile::tensor(std::string_view tensor) const {
  const TensorInfo& found = undamaged(tensor, nullptr);
  if (strided_.contains(tensor)) return tensor_copy(tensor);
  return view_or_copy(*found.dtype, found.shape,
                      content_->read(found.begin, found.end - found.begin));
}

Tensor TorchFile::tensor_to(std::string_view tensor, std::byte* to, const Task* task) const {
  constexpr int64_t kPiece = int64_t{4} << 20;
  const TensorInfo& found = undamaged(tensor, task);
  const int64_t bytes = found.end - found.begin, size = dtype_size(*found.dtype);
  if (const auto view = strided_.find(tensor); view != strided_.end()) {
    const Bytes span = content_->read(found.begin, view->second.span * size);
    gather(span.data(), found.shape, view->second.strides, size, to, task);
  } else {
    in_pieces(bytes, kPiece, task, [&](int64_t begin, int64_t end) {
      content_->read_to(found.begin + begin, end - begin, to + begin);
    });
  }
  return Tensor(*found.dtype, found.shape, Bytes(to, static_cast<size_t>(bytes), nullptr));
}

Tensor TorchFile::part_to(std::string_view tensor, const Box& box, std::byte* to,
                          const Task* task) const {
  undamaged(tensor, task);
  if (!strided_.contains(tensor)) return WeightFile::part_to(tensor, box, to, task);
  const Tensor part = part_of(tensor_copy(tensor, task), box);
  copy_in_pieces(to, part.bytes(), part.byte_size(), task);
  return Tensor(part.dtype(), box.shape, Bytes(to, static_cast<size_t>(part.byte_size()), nullptr));
}

} // namespace dllm::ckpt
