#pragma once
// The file a tokenized dataset is saved in; batches read their tokens from it. Little-endian:
//
//   0    "dllmtok1"
//   8    u32 version (1), u32 has_keep
//   16   i64 rows, i64 tokens
//   32   i32 vocabulary size, bos, eos, pad, mask (-1: none), i32 0
//   56   u64 hash of the payload, u64 hash of the 64 bytes before (hash.h)
//   72   i64 offsets[rows + 1], u8 starts[rows], u8 keep[tokens] if has_keep, i32 ids[tokens]; each
//   padded to 8 bytes

#include "text/token_rows.h"
#include "text/tokenizer_parts.h" // SpecialIds

#include <cstdint>
#include <memory>
#include <string>

namespace dllm {
class Task;
}

namespace dllm::text {

struct TokenFileInfo {
  int64_t vocabulary_size = 0;
  SpecialIds special;
};

bool is_token_file(const std::string& path);
// already_exists when something is at `path`: overwrite replaces a token file, never another.
void save_token_file(const std::string& path, const TokenRows& rows, const TokenFileInfo& info,
                     bool overwrite, const Task* task);
// Every size, offset and number is checked before anything is used. Fails with data_loss naming the
// file and the fault. Offsets and starts are in memory from here on, the tokens stay in the file.
TokenRows open_token_file(std::shared_ptr<const InputFile> file, TokenFileInfo& info,
                          const Task* task);

} // namespace dllm::text
