#pragma once
// A command of the program: its options and its function. Its options are the schemas of the library.

#include "dllm/dllm.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::cli {

// The C++ classes of the library, by the names that this program uses.
using Failure = dllm::api::Error;
using dllm::api::call;
using dllm::api::make;
using dllm::api::Owned;
using dllm::api::text;

// An argument of the command itself, in addition to the keys of the schemas.
struct Argument {
  enum class Kind { text, number, flag, positional, real } kind;
  std::string name;     // without dashes
  std::string fallback; // "" : none
  std::string sentence;
  bool required = false;
  // Names that stand behind the sentence; looked up when the help of the command is made.
  std::vector<std::string> (*names)() = nullptr;
};

class Context;

struct Command {
  std::string name;
  std::string summary; // one line
  std::string example; // one command that works, for --help
  std::vector<Argument> arguments;
  // Kinds of options whose keys become --<kind>.<key> and, where only one kind has it, --<key>. A kind "decoder:policy"
  // takes the schema of the value of --policy ("decoder:low_confidence").
  std::vector<std::string> kinds;
  int (*run)(Context&);
  // The first word without a dash is the last one parsed; what follows belongs to the script.
  bool passes_rest = false;
  // Where the program's default is not the library's.
  struct Preset {
    std::string kind, key, value;
  };
  std::vector<Preset> presets = {};
  // Arguments that a word without dashes fills, in this order, where their option was not typed:
  // {"model", "prompt"} for dllm generate MODEL PROMPT.
  std::vector<std::string> words = {};
};

// What was typed cannot be used: a wrong flag, a wrong value. The program ends with kUsage.
class UsageFailure : public Failure {
public:
  explicit UsageFailure(const std::string& message, std::string hint = {})
      : Failure(DLLM_INVALID_ARGUMENT, message, std::move(hint)) {}
};

// A value for a key of a kind, from the command line or from --config.
struct Setting {
  std::string kind, key; // key "": word is a JSON object with several keys
  std::string type;      // of the key: i64 f64 bool str list; "json": word is JSON
  std::string word;
  std::string shown;   // for messages: "--slot.seed", "run.json: trainer"
  bool shared = false; // the option stands for keys of several kinds, as --seed does
};

// What the user typed, checked.
class Context {
public:
  std::string text(const std::string& name) const;
  bool has(const std::string& name) const; // typed, or with a fallback
  bool flag(const std::string& name) const;
  int64_t number(const std::string& name) const; // fails with a Failure naming the argument
  double real(const std::string& name) const;    // likewise
  // Options of one kind with what was typed and what --config held; never null.
  dllm_options* options(const std::string& kind) const;
  // The value a key of a kind was given on the command line or in --config, else its default, as JSON.
  std::string option(const std::string& kind, const std::string& key) const;
  // True when the user gave it, on the command line or in --config.
  bool typed(const std::string& name) const { return typed_.count(name) != 0; }
  bool typed(const std::string& kind, const std::string& key) const;
  // The same, but not by an option that other kinds have too: --model.seed, not --seed.
  bool typed_alone(const std::string& kind, const std::string& key) const;
  // Options of `kind` follow another schema from here on ("decoder:autoregressive"), with what the user gave.
  void change_kind(const std::string& kind, const std::string& full);
  // True when standard input is this command's to read: not at the prompt of dllm repl.
  bool has_input() const { return has_input_; }
  void give_input() { has_input_ = true; }
  // Cancelled by Ctrl-C.
  dllm_task* task() const { return task_.get(); }
  bool json() const { return flag("json"); }
  const std::vector<std::string>& rest() const { return rest_; }

private:
  friend class Parser;
  void apply(const Setting& setting);

  std::map<std::string, std::string> values_;
  std::set<std::string> typed_;   // own arguments
  std::vector<Setting> settings_; // the command's presets first; the last one of a key wins
  size_t presets_ = 0;            // how many of them are presets
  std::map<std::string, Owned<dllm_options>> options_;
  std::vector<std::string> rest_;
  bool has_input_ = false;
  Owned<dllm_task> task_{dllm_task_new()};
};

// Parses argv of one command. Prints --help itself: then `done` holds the exit code.
struct Parsed {
  Context context;
  std::optional<int> done;
};
Parsed parse(const Command& command, int argc, char** argv); // throws UsageFailure

// One function per command, each in its file of commands/; the table is in main.cpp.
Command bench_command();
Command chat_command();
Command compile_command();
Command convert_command();
Command devices_command();
Command eval_command();
Command export_command();
Command generate_command();
Command graph_command();
Command infill_command();
Command inspect_command();
Command quantize_command();
Command repl_command();
Command replay_command();
Command report_command();
Command run_script_command();
Command tokenize_command();
Command tokenizer_train_command();
Command train_command();
Command verify_command();
const std::vector<Command>& commands();

// Exit codes: 0 fine, 1 failed, 2 wrong usage, 130 interrupted by Ctrl-C (143, 129: by SIGTERM, SIGHUP).
inline constexpr int kFailed = 1, kUsage = 2, kInterrupted = 130;

// What several commands need: an engine, a model from a folder, a file or a run, its tokenizer.

// No option is accepted and ignored: one that a command never uses is refused, one that has no effect together with the
// others is named on standard error.
void refuse_typed(const Context& context, const std::string& kind, const std::string& key,
                  const std::string& reason);
void note_typed(const Context& context, const std::string& kind, const std::string& key,
                const std::string& reason);

// An argument of this command that is a key of a kind under another name: errors name the argument.
void set_from_argument(Context& context, const std::string& kind, const char* key,
                       const std::string& argument);

// Refuses options of one kind of engine that the chosen kind ignores.
void check_engine(const Context& context);
// Started by mpirun: option processes of the engine is mpi, unless it was typed. Refuses commands that would do the same
// work in every process.
void join_processes(const Command& command, Context& context);
Owned<dllm_engine> open_engine(const Context& context);
Owned<dllm_model> open_model(const Context& context, dllm_engine* engine, const std::string& path);
Owned<dllm_checkpoint> open_checkpoint(const Context& context, const std::string& path);
Owned<dllm_tokenizer> open_tokenizer(const Context& context, const std::string& path);
// The same for prompts: encode begins a text as the model's files say, with bos or with nothing.
Owned<dllm_tokenizer> open_prompt_tokenizer(const Context& context, const std::string& path);

std::vector<int32_t> encode(const dllm_tokenizer* tokenizer, const std::string& text);
// Ids that the model has and the tokenizer has not (rows that fill up a vocabulary, an added mask token) have no text.
std::string decode(const dllm_tokenizer* tokenizer, const std::vector<int32_t>& ids);
int64_t model_number(const dllm_model* model, const char* key); // "vocab" "mask_id"

struct Canvas {
  std::vector<int32_t> ids;
  std::vector<uint8_t> states; // DLLM_MASKED .. DLLM_FIXED
  std::vector<float> confidence;
};
Canvas canvas_of(const dllm_decoder* decoder, int64_t slot);
double decoder_metric(const dllm_decoder* decoder, int64_t slot, const char* key);

std::string read_all(const std::string& path); // "-": standard input

} // namespace dllm::cli
