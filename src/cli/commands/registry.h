#pragma once
// One function per command; the table is in registry.cpp.

#include "../command.h"

namespace dllm::cli {

Command chat_command();
Command compile_command();
Command devices_command();
Command generate_command();
Command graph_command();
Command infill_command();
Command inspect_command();
Command repl_command();
Command replay_command();
Command run_script_command();
Command tokenize_command();
Command tokenizer_train_command();
Command train_command();
Command verify_command();

}  // namespace dllm::cli
