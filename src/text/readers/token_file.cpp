#include "text/data/dataset.h"

#include "base/error.h"
#include "base/files.h"
#include "base/task.h"
#include "text/readers/readers.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

namespace dllm::text {

namespace {

static_assert(std::endian::native == std::endian::little,
              "token files are little-endian and read as they are");

constexpr char kMagic[8] = {'d', 'l', 'l', 'm', 't', 'o', 'k', '1'};

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t has_keep;
  int64_t rows;
  int64_t tokens;
  int32_t vocabulary_size, bos, eos, pad, mask, id_bytes;
  uint64_t vocabulary_hash;
  uint64_t payload_hash;
  uint64_t header_hash;
};
static_assert(sizeof(Header) == 80);
constexpr uint32_t kVersion = 2;
constexpr int64_t kNarrowVocabulary = 65536;
constexpr size_t kHashed = offsetof(Header, header_hash);

constexpr uint64_t padded(uint64_t size) {
  return (size + 7) / 8 * 8;
}

constexpr int64_t kBlock = int64_t{1} << 22; // bytes or tokens in memory at once

// Writes an array and the zeros up to the next multiple of 8, and folds both into the hash.
struct Payload {
  FileWriter* file; // null: the hash alone
  bool narrow;      // ids of 2 bytes
  uint64_t hash = 0;

  void add(const void* data, size_t size) {
    put(data, size);
    pad(size);
    hash = hash_bytes(data, size, hash);
  }
  void add(const TokenRows& rows) {
    add(rows.offsets().data(), rows.offsets().size_bytes());
    add(rows.starts().data(), rows.starts().size_bytes());
    if (rows.has_keep()) add_tokens(rows, 1, [](const TokenRow& part) { return part.keep.data(); });
    if (!narrow)
      return add_tokens(rows, sizeof(int32_t),
                        [](const TokenRow& part) { return part.ids.data(); });
    std::vector<uint16_t> small;
    add_tokens(rows, sizeof(uint16_t), [&](const TokenRow& part) {
      small.clear();
      for (const int32_t id : part.ids) small.push_back(static_cast<uint16_t>(id));
      return small.data();
    });
  }

private:
  template <class Select> void add_tokens(const TokenRows& rows, size_t width, Select select) {
    const size_t size = static_cast<size_t>(rows.tokens()) * width;
    HashStream stream(size, hash);
    for (int64_t at = 0; at < rows.tokens(); at += kBlock) {
      const TokenRow part = rows.part(at, std::min(kBlock, rows.tokens() - at));
      const auto* data = select(part);
      stream.add(data, part.ids.size() * width);
      put(data, part.ids.size() * width);
    }
    pad(size);
    hash = stream.finish();
  }
  void put(const void* data, size_t size) {
    if (file != nullptr) file->write(data, size);
  }
  void pad(size_t size) {
    static constexpr char kZeros[8] = {};
    put(kZeros, padded(size) - size);
  }
};

// The hash of the arrays of a file, and the first id outside the vocabulary.
struct Scanned {
  uint64_t hash = 0;
  std::optional<int32_t> bad_id;
};

Scanned scan_payload(const InputFile& file, const Header& h, const std::vector<int64_t>& offsets,
                     const std::vector<uint8_t>& starts, const TokenPlaces& places,
                     const Task* task) {
  Scanned found;
  found.hash = hash_bytes(offsets.data(), offsets.size() * sizeof(int64_t));
  found.hash = hash_bytes(starts.data(), starts.size(), found.hash);
  const auto add = [&](int64_t begin, int64_t size, auto look) {
    HashStream stream(static_cast<size_t>(size), found.hash);
    for (int64_t at = 0; at < size; at += kBlock) {
      check_task(task);
      const Bytes block = file.read(begin + at, std::min(kBlock, size - at));
      stream.add(block.data(), block.size());
      look(block);
    }
    found.hash = stream.finish();
  };
  if (places.keep >= 0) add(places.keep, h.tokens, [](const Bytes&) {});
  const auto look = [&](auto ids) {
    for (const int32_t id : ids) {
      const bool outside = id < 0 || id >= h.vocabulary_size;
      if (outside && !found.bad_id) found.bad_id = id;
    }
  };
  add(places.ids, places.id_bytes * h.tokens, [&](const Bytes& block) {
    if (places.id_bytes == 2)
      look(std::span(reinterpret_cast<const uint16_t*>(block.data()), block.size() / 2));
    else
      look(std::span(reinterpret_cast<const int32_t*>(block.data()), block.size() / 4));
  });
  return found;
}

void check_offsets(const std::string& path, const Header& h, const std::vector<int64_t>& offsets) {
  bool rising = offsets.front() == 0 && offsets.back() == h.tokens;
  for (size_t i = 1; i < offsets.size(); ++i) rising = rising && offsets[i] >= offsets[i - 1];
  if (!rising) fail(Code::data_loss, "{}: row offsets do not rise from 0 to {}", path, h.tokens);
}

template <class T> std::vector<T> read_array(const InputFile& file, int64_t at, int64_t count) {
  std::vector<T> made(static_cast<size_t>(count));
  file.read(at, made.data(), count * static_cast<int64_t>(sizeof(T)));
  return made;
}

} // namespace

bool is_token_file(const std::string& path) {
  if (!file_exists(path) || is_directory(path) ||
      file_size(path) < static_cast<int64_t>(sizeof(Header))) {
    return false;
  }
  char magic[sizeof kMagic];
  InputFile(path).read(0, magic, sizeof magic);
  return std::memcmp(magic, kMagic, sizeof kMagic) == 0;
}

namespace {

void check_new_token_file(const std::string& path, bool overwrite) {
  if (!file_exists(path) && !is_link(path)) return;
  if (!overwrite) {
    fail_with_hint("choose another path, or set overwrite", Code::already_exists,
                   "{} is there already", path);
  }
  if (is_link(path) || !is_token_file(path)) {
    fail_with_hint("choose another path, or move it away", Code::already_exists,
                   "{} is not replaced: it is not a token file", path);
  }
}

} // namespace

void save_token_file(const std::string& path, const TokenRows& rows, const TokenFileInfo& info,
                     bool overwrite, const Task* task) {
  check_new_token_file(path, overwrite);
  const bool narrow = info.vocabulary_size <= kNarrowVocabulary;
  Payload dry{nullptr, narrow};
  dry.add(rows);
  Header h{};
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  h.version = kVersion;
  h.has_keep = rows.has_keep();
  h.rows = rows.size();
  h.tokens = rows.tokens();
  h.vocabulary_size = static_cast<int32_t>(info.vocabulary_size);
  h.bos = info.special.bos;
  h.eos = info.special.eos;
  h.pad = info.special.pad;
  h.mask = info.special.mask;
  h.id_bytes = narrow ? 2 : 4;
  h.vocabulary_hash = info.vocabulary_hash;
  h.payload_hash = dry.hash;
  h.header_hash = hash_bytes(&h, kHashed);
  check_task(task);
  const std::string partial = path + ".partial";
  FileWriter file(partial);
  try {
    file.write(&h, sizeof h);
    Payload{&file, narrow}.add(rows);
    file.close();
    check_task(task);
    rename_path(partial, path);
  } catch (...) {
    remove_all(partial);
    throw;
  }
}

TokenRows open_token_file(std::shared_ptr<const InputFile> file, TokenFileInfo& info,
                          const Task* task) {
  const std::string& path = file->path();
  if (is_gzip(*file)) {
    fail_with_hint("decompress it with gunzip", Code::invalid_argument,
                   "{} is compressed, but the tokens of a token file are read in place", path);
  }
  if (file->size() < static_cast<int64_t>(sizeof(Header))) {
    fail(Code::data_loss, "{} has {} bytes, less than a header of {}", path, file->size(),
         sizeof(Header));
  }
  Header h;
  file->read(0, &h, sizeof h);
  if (std::memcmp(h.magic, kMagic, sizeof kMagic) != 0)
    fail(Code::data_loss, "{} is not a token file", path);
  if (h.version != kVersion) {
    fail_with_hint("make it again with dllm tokenize", Code::unimplemented,
                   "{} has version {}, this library reads version {}", path, h.version, kVersion);
  }
  if (hash_bytes(&h, kHashed) != h.header_hash)
    fail(Code::data_loss, "{}: the header's checksum is wrong", path);
  const int64_t limit = file->size(); // every row and token takes a byte at least
  if (h.rows < 0 || h.tokens < 0 || h.rows > limit || h.tokens > limit || h.vocabulary_size < 0) {
    fail(Code::data_loss, "{} has {} rows and {} tokens in {} bytes, which cannot be", path, h.rows,
         h.tokens, limit);
  }
  if (h.id_bytes != 2 && h.id_bytes != 4)
    fail(Code::data_loss, "{}: an id has {} bytes, expected 2 or 4", path, h.id_bytes);
  const auto rows = static_cast<size_t>(h.rows), tokens = static_cast<size_t>(h.tokens);
  const size_t offsets_at = sizeof(Header);
  const size_t starts_at = offsets_at + 8 * (rows + 1);
  const size_t keep_at = starts_at + padded(rows);
  const size_t ids_at = keep_at + (h.has_keep != 0 ? padded(tokens) : 0);
  const size_t end = ids_at + padded(static_cast<size_t>(h.id_bytes) * tokens);
  if (end != static_cast<size_t>(file->size())) {
    fail(Code::data_loss, "{}: {} rows and {} tokens need {} bytes, the file has {}", path, h.rows,
         h.tokens, end, file->size());
  }
  const TokenPlaces places{static_cast<int64_t>(ids_at),
                           h.has_keep != 0 ? static_cast<int64_t>(keep_at) : -1, h.id_bytes};
  auto offsets = read_array<int64_t>(*file, static_cast<int64_t>(offsets_at), h.rows + 1);
  auto starts = read_array<uint8_t>(*file, static_cast<int64_t>(starts_at), h.rows);
  const Scanned scanned = scan_payload(*file, h, offsets, starts, places, task);
  if (scanned.hash != h.payload_hash) fail(Code::data_loss, "{}: the checksum is wrong", path);
  check_offsets(path, h, offsets);
  if (scanned.bad_id) {
    fail(Code::data_loss, "{}: token {} is outside the vocabulary of {}", path, *scanned.bad_id,
         h.vocabulary_size);
  }
  info.vocabulary_size = h.vocabulary_size;
  info.special = {h.bos, h.eos, h.pad, h.mask};
  info.vocabulary_hash = h.vocabulary_hash;
  return TokenRows(std::move(file), places, std::move(offsets), std::move(starts));
}

Reader token_file_reader() {
  return {.name = "tokens",
          .recognizes =
              [](const FileHead& file) {
                return file.head.starts_with({kMagic, sizeof kMagic});
              },
          .open = open_token_file};
}

} // namespace dllm::text
