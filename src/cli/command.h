#pragma once
// A Command of the program has a name, options and a function. Most options are keys of the
// library's schemas. This header also declares functions that several commands use.

#include "dllm/dllm.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::cli {

// Names of this program for classes and functions of the library.
using Failure = dllm::api::Error;
using dllm::api::call;
using dllm::api::make;
using dllm::api::Owned;
using dllm::api::text;

// An argument of the command itself, in addition to the keys of the schemas.
struct Argument {
  enum class Kind { text, number, flag, positional, real } kind;
  std::string name;     // without dashes
  std::string fallback; // default value; "": none
  std::string sentence; // description in the help
  bool required = false;
  // Returns names that follow the sentence in the help. Called when the help is made; may be null.
  std::vector<std::string> (*names)() = nullptr;
  bool repeats = false; // the only positional; Context::rest() has the words after its first
};

class Context;

struct Command {
  std::string name;
  std::string summary; // one line
  std::string example; // a command line that works, for --help
  std::vector<Argument> arguments;
  // Kinds of options. Each key becomes --<kind>.<key>, and also --<key> when only one kind has the
  // key. Kind "decoder:policy" has the schema of the value of --policy ("decoder:low_confidence").
  std::vector<std::string> kinds;
  int (*run)(Context&); // returns the exit code
  // Parsing ends after the first word without a dash; the words after it belong to the script.
  bool passes_rest = false;
  // A default of the program that differs from the library's default.
  struct Preset {
    std::string kind, key, value;
  };
  std::vector<Preset> presets = {};
  // Arguments that take the words without dashes, in this order, unless their option was typed:
  // {"model", "prompt"} for dllm generate MODEL PROMPT.
  std::vector<std::string> words = {};
  // Defaults that the help shows, where the command chooses a value itself.
  std::vector<Preset> shown = {};
  // Prints what --help says about the other options of this command line; may be null.
  void (*after_help)(Context&) = nullptr;
};

// The error for a wrong command line, such as an unknown option or a wrong value. The program ends
// with kUsage.
class UsageFailure : public Failure {
public:
  explicit UsageFailure(const std::string& message, std::string hint = {})
      : Failure(DLLM_INVALID_ARGUMENT, message, std::move(hint)) {}
};

// A value for a key of a kind, from the command line or from --config.
struct Setting {
  std::string kind, key; // key "": word is a JSON object with several keys
  std::string type;      // type of the key: i64 f64 bool str list; "json": word is JSON
  std::string word;      // the value
  std::string shown;     // name in messages: "--slot.seed", "run.json: trainer"
  bool shared = false;   // the option sets keys of several kinds, as --seed does
};

// The checked arguments and options of one command line.
class Context {
public:
  std::string text(const std::string& name) const;
  bool has(const std::string& name) const; // typed, or has a fallback
  bool flag(const std::string& name) const;
  int64_t number(const std::string& name) const; // fails with a Failure naming the argument
  double real(const std::string& name) const;    // fails with a Failure naming the argument
  // Returns the options of one kind with the settings of command line and --config; never null.
  dllm_options* options(const std::string& kind) const;
  // Returns the value of a key on the command line or in --config, else its default, as JSON.
  std::string option(const std::string& kind, const std::string& key) const;
  // Returns true when the command line or --config has the argument or key.
  bool typed(const std::string& name) const { return typed_.count(name) != 0; }
  bool typed(const std::string& kind, const std::string& key) const;
  // Returns true when the key was set by an option of this kind only: --model.seed, not --seed.
  bool typed_alone(const std::string& kind, const std::string& key) const;
  // Returns what the command line and --config set, as JSON:
  // {"arguments": {"data": "corpus.txt"}, "options": {"trainer": {"lr": 0.001}}}.
  std::string given() const;
  // These functions set a value of an earlier start where neither the command line nor --config has
  // one. The value then counts as typed. They return whether it was set. word, json: the value;
  // shown: its name in messages.
  bool take_argument(const std::string& name, const std::string& word);
  bool take_option(const std::string& kind, const std::string& key, const std::string& json,
                   const std::string& shown);
  // Makes the options of `kind` again with schema `full` ("decoder:autoregressive") and the user's
  // settings.
  void change_kind(const std::string& kind, const std::string& full);
  // Sets an argument that the user typed to another value.
  void replace(const std::string& name, const std::string& value) { values_[name] = value; }
  // Returns true when the command may read standard input, which is false at the prompt of dllm
  // repl.
  bool has_input() const { return has_input_; }
  void give_input() { has_input_ = true; }
  // Returns the task of the command, which Ctrl-C cancels.
  dllm_task* task() const { return task_.get(); }
  bool json() const { return flag("json"); }
  const std::vector<std::string>& rest() const { return rest_; }

private:
  friend class Parser;
  void apply(const Setting& setting);

  std::map<std::string, std::string> values_;
  std::set<std::string> typed_;   // arguments of the command that were typed
  std::vector<Setting> settings_; // presets of the command first; the last setting of a key wins
  size_t presets_ = 0;            // number of presets in settings_
  std::map<std::string, Owned<dllm_options>> options_;
  std::vector<std::string> rest_;
  bool has_input_ = false;
  Owned<dllm_task> task_{dllm_task_new()};
};

struct Parsed {
  Context context;
  std::optional<int> done; // the exit code, after --help
};
// Parses argv of one command, and prints the help for --help. Throws UsageFailure.
Parsed parse(const Command& command, int argc, char** argv);

// One function per command, in the files of commands/. main.cpp has the table.
Command anchors_command();
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
Command models_command();
Command pull_command();
Command quantize_command();
Command repl_command();
Command replay_command();
Command report_command();
Command run_script_command();
Command serve_command();
Command sweep_command();
Command tokenize_command();
Command tokenizer_train_command();
Command train_command();
Command trajectories_command();
Command verify_command();
const std::vector<Command>& commands();

// Exit codes: 0 success, 1 failed, 2 wrong usage, 130 interrupted by Ctrl-C (SIGTERM 143, SIGHUP
// 129).
inline constexpr int kFailed = 1, kUsage = 2, kInterrupted = 130;

// No option is ignored silently. refuse_typed() fails for a typed option that the command never
// uses. note_typed() reports, on standard error, a typed option that has no effect with the others.
void refuse_typed(const Context& context, const std::string& kind, const std::string& key,
                  const std::string& reason);
void note_typed(const Context& context, const std::string& kind, const std::string& key,
                const std::string& reason);

// Sets a key of a kind from an argument of the command with another name. Errors name the argument.
void set_from_argument(Context& context, const std::string& kind, const char* key,
                       const std::string& argument);

// Sets an option of a kind from argument template: the name of a chat template, or a file that
// holds one. Does nothing without the argument.
void set_template(Context& context, const std::string& kind, const char* key = "template");
// Returns the name or the text of argument template; "" without the argument.
std::string given_template(const Context& context);
// Returns the name of a chat template, or the text of the file that a word names.
std::string template_text(const std::string& word);

// Refuses options of one kind of engine that the chosen kind ignores.
void check_engine(const Context& context);
// In a job of mpirun, sets option processes of the engine to mpi unless it was typed. Refuses
// commands that would do the same work in every process.
void join_processes(const Command& command, Context& context);

// The functions below open the objects that options and arguments describe. `path` is a folder, a
// file or a run.
Owned<dllm_engine> open_engine(const Context& context);
// task: cancels the load in place of the command's own task.
Owned<dllm_model> open_model(const Context& context, dllm_engine* engine, const std::string& path,
                             dllm_task* task = nullptr);
Owned<dllm_checkpoint> open_checkpoint(const Context& context, const std::string& path);
Owned<dllm_tokenizer> open_tokenizer(const Context& context, const std::string& path);
// Opens a tokenizer for prompts: it begins a text with the tokens that the model's files require
// (bos, or none).
Owned<dllm_tokenizer> open_prompt_tokenizer(const Context& context, const std::string& path);
// Opens a tokenizer that leaves special tokens out when it decodes.
Owned<dllm_tokenizer> open_plain_tokenizer(const Context& context, const std::string& path);

std::vector<int32_t> encode(const dllm_tokenizer* tokenizer, const std::string& text);
// Returns the ids of a short conversation in a chat template; empty without one. chat: a name or a
// text; "": the tokenizer's own.
std::vector<int32_t> encode_chat(const dllm_tokenizer* tokenizer, const std::string& chat = {});
// Ids that the tokenizer lacks have no text. A model may have such ids, as rows that fill up a
// vocabulary, or an added mask token.
std::string decode(const dllm_tokenizer* tokenizer, const std::vector<int32_t>& ids);
// Returns the latest checkpoint of the run at `path`; "" when the path is not a run.
std::string latest_of_run(const Context& context, const std::string& path);
// Returns what files of results name: {"model", "model_checksum", "model_options"}, the
// "checkpoint" of a run, and the "adapter_checksum" of option adapter.
nlohmann::ordered_json model_facts(const Context& context);
// key: "vocab" or "mask_id".
int64_t model_number(const dllm_model* model, const char* key);

struct Canvas {
  std::vector<int32_t> ids;
  std::vector<uint8_t> states; // DLLM_MASKED .. DLLM_FIXED
  std::vector<float> confidence;
};
Canvas canvas_of(const dllm_decoder* decoder, int64_t slot);
double decoder_metric(const dllm_decoder* decoder, int64_t slot, const char* key);

// Returns the numbers of an array of a batch, row after row.
template <class T>
std::vector<T> read_array(const dllm_batch* batch, const char* name, int32_t dtype) {
  const auto tensor = make<dllm_tensor>(
      [&](dllm_tensor** out, dllm_error* err) { return dllm_batch_array(batch, name, out, err); });
  std::vector<T> values(
      static_cast<size_t>(dllm_tensor_dim(tensor.get(), 0) * dllm_tensor_dim(tensor.get(), 1)));
  call([&](dllm_error* err) {
    return dllm_tensor_read(tensor.get(), dtype, values.data(),
                            static_cast<int64_t>(values.size() * sizeof(T)), err);
  });
  return values;
}

// Returns the content of a regular file, or of standard input for "-".
std::string read_all(const std::string& path);
// Returns the same for a text in UTF-8, without the byte order mark that some editors write. Fails
// for UTF-16.
std::string read_utf8(const std::string& path);
// Writes a file. A regular file is replaced at once, so it keeps its content when the disk is full.
void write_all(const std::string& path, const std::string& content);
// Fails when the path is a file that does not begin with `begin`: write_all() would replace a file
// of the user. what: "a trace". option: the option that names the path. An empty file may be
// replaced.
void check_replaces(const std::string& path, const std::string& begin, const std::string& what,
                    const std::string& option);

} // namespace dllm::cli
