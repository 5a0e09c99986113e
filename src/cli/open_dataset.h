#pragma once
// Opens the data of a command, and shows what is read.

#include "command.h"
#include "processes/process.h"

#include <string>

namespace dllm::cli {

// Calls dllm_dataset_open with the options of kind "dataset". tokenizer: may be null. On a terminal
// a status line names the file of the hub that is loaded or read. It also has the bytes and the
// time left: "file 2 of 5: data/train-1.parquet, 12.0 MiB  18 of 60 MB, 7 s left". Warnings of the
// log are printed above the line. quiet: shows no line.
Owned<dllm_dataset> open_dataset(const Context& context, const std::string& path,
                                 const dllm_tokenizer* tokenizer, bool quiet);

} // namespace dllm::cli
