#include "registry.h"

namespace dllm::cli {

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      train_command(),           generate_command(), infill_command(),  chat_command(), replay_command(), tokenize_command(),
      tokenizer_train_command(), inspect_command(),  devices_command(), graph_command(),
      compile_command(),
      verify_command(),          run_script_command(), repl_command()};
  return table;
}

}  // namespace dllm::cli
