#pragma once
// dllm generate --prompts: decodes the rows of a file, many at a time, and writes a line per row.

#include "../../command.h"

namespace dllm::cli {

// Reads the rows of option prompts and writes the lines of option out, or to standard output. A row
// that is in the file of option out already is not decoded again. Returns the exit code: kFailed
// when a row failed, kInterrupted after Ctrl-C.
int generate_rows(Context& context);

} // namespace dllm::cli
