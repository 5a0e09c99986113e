#pragma once
// What is wrong with a command line of dllm train is said before anything is computed or written.

#include "../command.h"

#include <string>

namespace dllm::cli {

// Values that do not fit together, and options that would do nothing.
void check_values(Context& context);
// A new run: the files it starts from are there.
void check_sources(const Context& context);
// A resumed run: options that only count at its start must have the same values.
void check_resumed(const Context& context, const std::string& out);
// Keeps that for a later check, in out/run.json.
void write_start(const Context& context, const std::string& out);

// Steps between checkpoints, from --save-every or --save_every.
int64_t save_every(const Context& context);

}  // namespace dllm::cli
