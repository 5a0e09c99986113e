#include "text/token_file.h"

#include "base/error.h"
#include "base/files.h"
#include "base/task.h"
#include "text/hash.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace dllm::text {

namespace {

static_assert(std::endian::native == std::endian::little,
              "token files are little-endian and mapped as they are");

constexpr char kMagic[8] = {'d', 'l', 'l', 'm', 't', 'o', 'k', '1'};

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t has_keep;
  int64_t rows;
  int64_t tokens;
  int32_t vocabulary_size, bos, eos, pad, mask, zero;
  uint64_t payload_hash;
  uint64_t header_hash;
};
static_assert(sizeof(Header) == 72);
constexpr size_t kHashed = offsetof(Header, header_hash);

constexpr uint64_t padded(uint64_t size) {
  return (size + 7) / 8 * 8;
}

// Writes an array and the zeros up to the next multiple of 8, and folds both into the hash.
struct Payload {
  FileWriter* file;
  uint64_t hash = 0;

  void add(const void* data, size_t size) {
    static constexpr char kZeros[8] = {};
    if (file != nullptr) {
      file->write(data, size);
      file->write(kZeros, padded(size) - size);
    }
    hash = hash_bytes(data, size, hash);
  }
  void add(const TokenRows& rows) {
    add(rows.offsets().data(), rows.offsets().size_bytes());
    add(rows.starts().data(), rows.starts().size_bytes());
    if (!rows.keep().empty()) add(rows.keep().data(), rows.keep().size_bytes());
    add(rows.ids().data(), rows.ids().size_bytes());
  }
};

void check_rows(const std::string& path, const Header& h, const TokenRows& rows) {
  const auto offsets = rows.offsets();
  bool rising = offsets.front() == 0 && offsets.back() == h.tokens;
  for (size_t i = 1; i < offsets.size(); ++i) rising = rising && offsets[i] >= offsets[i - 1];
  if (!rising) fail(Code::data_loss, "{}: row offsets do not rise from 0 to {}", path, h.tokens);
  for (int32_t id : rows.ids()) {
    if (id < 0 || id >= h.vocabulary_size) {
      fail(Code::data_loss, "{}: token {} is outside the vocabulary of {}", path, id,
           h.vocabulary_size);
    }
  }
}

} // namespace

bool is_token_file(const std::string& path) {
  if (!file_exists(path) || is_directory(path) ||
      file_size(path) < static_cast<int64_t>(sizeof(Header))) {
    return false;
  }
  const Bytes file = map_file(path);
  return std::memcmp(file.data(), kMagic, sizeof kMagic) == 0;
}

void save_token_file(const std::string& path, const TokenRows& rows, const TokenFileInfo& info,
                     const Task* task) {
  Payload dry{nullptr};
  dry.add(rows);
  Header h{};
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  h.version = 1;
  h.has_keep = !rows.keep().empty();
  h.rows = rows.size();
  h.tokens = rows.tokens();
  h.vocabulary_size = static_cast<int32_t>(info.vocabulary_size);
  h.bos = info.special.bos;
  h.eos = info.special.eos;
  h.pad = info.special.pad;
  h.mask = info.special.mask;
  h.payload_hash = dry.hash;
  h.header_hash = hash_bytes(&h, kHashed);
  check_task(task);
  const std::string partial = path + ".partial";
  FileWriter file(partial);
  file.write(&h, sizeof h);
  Payload{&file}.add(rows);
  file.close();
  check_task(task);
  rename_path(partial, path);
  sync_path(parent_path(path).empty() ? "." : parent_path(path));
}

TokenRows open_token_file(const std::string& path, TokenFileInfo& info, const Task* task) {
  const Bytes file = map_file(path);
  if (file.size() < sizeof(Header)) {
    fail(Code::data_loss, "{}: {} bytes are less than a header of {}", path, file.size(),
         sizeof(Header));
  }
  Header h;
  std::memcpy(&h, file.data(), sizeof h);
  if (std::memcmp(h.magic, kMagic, sizeof kMagic) != 0)
    fail(Code::data_loss, "{} is not a token file", path);
  if (h.version != 1)
    fail(Code::unimplemented, "{}: version {}, this library reads 1", path, h.version);
  if (hash_bytes(&h, kHashed) != h.header_hash)
    fail(Code::data_loss, "{}: the header's checksum is wrong", path);
  const auto limit = static_cast<int64_t>(file.size()); // every row and token takes a byte at least
  if (h.rows < 0 || h.tokens < 0 || h.rows > limit || h.tokens > limit || h.vocabulary_size < 0) {
    fail(Code::data_loss, "{}: {} rows and {} tokens in {} bytes", path, h.rows, h.tokens, limit);
  }
  const auto rows = static_cast<size_t>(h.rows), tokens = static_cast<size_t>(h.tokens);
  const size_t offsets_at = sizeof(Header);
  const size_t starts_at = offsets_at + 8 * (rows + 1);
  const size_t keep_at = starts_at + padded(rows);
  const size_t ids_at = keep_at + (h.has_keep != 0 ? padded(tokens) : 0);
  if (ids_at + padded(4 * tokens) != file.size()) {
    fail(Code::data_loss, "{}: {} rows and {} tokens need {} bytes, the file has {}", path, h.rows,
         h.tokens, ids_at + padded(4 * tokens), file.size());
  }
  const auto at = [&](size_t offset) { return file.data() + offset; };
  const std::span keep(reinterpret_cast<const uint8_t*>(at(keep_at)), h.has_keep != 0 ? tokens : 0);
  TokenRows found(file, {reinterpret_cast<const int64_t*>(at(offsets_at)), rows + 1},
                  {reinterpret_cast<const uint8_t*>(at(starts_at)), rows}, keep,
                  {reinterpret_cast<const int32_t*>(at(ids_at)), tokens});
  Payload payload{nullptr};
  payload.add(found);
  check_task(task);
  if (payload.hash != h.payload_hash) fail(Code::data_loss, "{}: the checksum is wrong", path);
  check_rows(path, h, found);
  info.vocabulary_size = h.vocabulary_size;
  info.special = {h.bos, h.eos, h.pad, h.mask};
  return found;
}

} // namespace dllm::text
