#include "lua/allowed.h"

#include "dllm/dllm.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

namespace dllm::lua {
namespace {

// Returns true when `words`, a list with spaces, contains `word`.
bool lists(std::string_view words, std::string_view word) {
  if (word.empty()) return false;
  for (size_t at = words.find(word); at != std::string_view::npos; at = words.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' '))
      return true;
  }
  return false;
}

struct Row {
  std::string_view name, words;
};

template <size_t N> std::string_view words_of(const Row (&rows)[N], std::string_view name) {
  const auto* found = std::find_if(std::begin(rows), std::end(rows),
                                   [&](const Row& row) { return row.name == name; });
  return found == std::end(rows) ? std::string_view() : found->words;
}

// ---- functions, by noun ----

constexpr Row kFunctions[] = {
    {"abi", "version"},
    {"answer", "new release update text next cells"},
    {"batch", "new release set array count name"},
    {"buffer", "new release data size"},
    {"build", "info"},
    {"checkpoint",
     "save restore latest latest_task open open_task release describe tensor verify check"},
    {"dataset", "open new add release size save extract_trajectories"},
    {"decoder",
     "new release start add remove step step_for run ids states confidence metric trace describe"},
    {"dllmx_decoder", "predict statistics commit"},
    {"engine", "new release device_count device_name describe set_i64 i64 plan trim"},
    {"error", "new release code message hint"},
    {"event", "kind i64 f64 str i32s f32s describe"},
    {"generator", "load new release add remove step run text describe decoder model tokenizer"},
    {"has", "feature"},
    {"loader", "new release next seek position write_anchors"},
    {"model", "load load_source new save quantize release config describe i64 version param_count "
              "param_name "
              "param set_param set_tokenizer forward add_adapter load_adapter save_adapter "
              "merge_adapter remove_adapter set_adapter_scale adapters add_network "
              "remove_network"},
    {"objective", "new release prepare loss row_losses"},
    {"options", "new release set_i64 set_f64 set_str set_json to_json schema"},
    {"registry", "name"},
    {"schedule", "new table release eval"},
    {"source", "new release add"},
    {"status", "name"},
    {"task", "new release cancel is_cancelled set_deadline progress"},
    {"tensor", "new release dtype rank dim data read"},
    {"tokenizer", "load load_task load_source train save release size id encode encode_task decode "
                  "decode_stream chat chat_task"},
    {"trainer", "new release step accumulate apply sync run eval metric describe set_f64 model"}};

constexpr std::string_view kNotSafe = "dllm_trainer_add_sink";

// Text parameters that are names in a registry, keys of an object, roles or values. Every other
// text parameter is a path.
constexpr std::string_view kNames = "name key kind role value part";

// ---- options, by kind ----

// Kinds whose numbers are sizes, seeds and rates.
constexpr std::string_view kNumberKinds =
    "adapter anchors answer chat checkpoint dataset decoder forward generator "
    "loader model objective plan quantize queue request save "
    "schedule sink slot submission tokenizer tokenizer_train trainer trajectories";

// Texts, lists and choices that do not reach files or native code; for kind engine also numbers.
constexpr Row kPlain[] = {
    {"adapter", "kind targets exclude layers modules_to_save"},
    {"anchors", "layers store"},
    {"answer", "prompt stop"},
    {"chat", "template name tools variables"},
    {"checkpoint", "keep_steps script_state"},
    {"dataset",
     "format rows text_key prompt_key response_key instruction_key messages_key template "
     "bad_rows"},
    {"decoder",
     "policy schedule schedule_alphas attention cache guidance_keep suppress logit_bias defer "
     "loop on_change remasking revise "
     "masked alg plan compat order ranks variant adapter adapters embeddings "
     "implementation ties confidence solver"},
    {"engine", "threads thread_pool memory_limit arithmetic check ranks mesh"},
    {"forward", "attention outputs"},
    {"generator", "policy"},
    {"loader", "split order truncate pad_side response_cut"},
    {"model", "dtype attention mask_token cache_dtype check weights heads"},
    {"objective",
     "attention compat time_sampling loss_weight loss_norm time_per block_steps start insert_order "
     "repetition trajectory_blocks source train_base time_draw reader level"},
    {"plan", "what format dtype adapter activations objective optimizer policy loop"},
    {"quantize", "format weights"},
    {"queue", "policy"},
    {"request", "prompt messages infill template template_name stop_ids"},
    {"save", "dtype"},
    {"schedule", "compat"},
    {"slot", "stop"},
    {"submission", "client"},
    {"tokenizer", "bos eos pad mask add_tokens chat_template"},
    {"tokenizer_train", "pre_tokenizer normalizer bos eos pad mask special_tokens chat_template"},
    {"trajectories", "method lines fill attention"},
    {"trainer", "schedule optimizer decay nonfinite groups freeze activations compat"}};

constexpr Row kPaths[] = {{"dataset", "token_file"},
                          {"decoder", "adapter_folders"},
                          {"generator", "adapter_folders"},
                          {"loader", "arrays trajectories"},
                          {"model", "adapter"},
                          {"queue", "adapter_folders"},
                          {"trainer", "root offload"}};

// Groups of options whose values are texts, lists or choices, and never paths. The tables of these
// kinds of things have the options, so the lists above do not.
constexpr Row kPlainGroups[] = {{"adapter", "kind"},          {"answer", "end"},
                                {"objective", "filler term"}, {"request", "constraint end"},
                                {"slot", "decoder"},          {"trainer", "optimizer"}};

using Keys = std::set<std::string, std::less<>>;

// Returns the keys of a schema in groups.
Keys keys_of_groups(std::string_view kind, std::string_view groups) {
  dllm_buffer* out = dllm_buffer_new();
  Keys found;
  if (dllm_options_schema(std::string(kind).c_str(), out, nullptr) == DLLM_OK) {
    const auto* text = static_cast<const char*>(dllm_buffer_data(out));
    const auto schema = nlohmann::json::parse(text, text + dllm_buffer_size(out));
    for (const auto& row : schema.at("keys")) {
      if (lists(groups, row.value("group", ""))) found.insert(row.at("name"));
    }
  }
  dllm_buffer_release(out);
  return found;
}

// Returns true for an option of a group in kPlainGroups.
bool is_of_plain_group(std::string_view kind, std::string_view key) {
  static const auto keys = [] {
    std::map<std::string_view, Keys> of;
    for (const Row& row : kPlainGroups) of[row.name] = keys_of_groups(row.name, row.words);
    return of;
  }();
  const auto found = keys.find(kind);
  return found != keys.end() && found->second.contains(key);
}

} // namespace

FunctionUse function_use(std::string_view name) {
  if (lists(kNotSafe, name)) return FunctionUse::not_safe;
  if (name == "dllm_version") return FunctionUse::every_level;
  const std::string_view expert = "dllmx_", usual = "dllm_";
  const bool is_expert = name.starts_with(expert);
  if (!is_expert && !name.starts_with(usual)) return FunctionUse::full_only;
  // The noun of an expert function has its prefix.
  const size_t begin = is_expert ? 0 : usual.size();
  const size_t end = name.find('_', is_expert ? expert.size() : begin);
  if (end == std::string_view::npos) return FunctionUse::full_only;
  const bool allowed =
      lists(words_of(kFunctions, name.substr(begin, end - begin)), name.substr(end + 1));
  return allowed ? FunctionUse::every_level : FunctionUse::full_only;
}

bool is_path(const Param& param) {
  return param.kind == ParamKind::text && !lists(kNames, param.name);
}

OptionUse option_use(std::string_view kind, std::string_view key, bool is_number) {
  const std::string_view base = kind.substr(0, kind.find(':'));
  if (lists(words_of(kPaths, base), key)) return OptionUse::path;
  if (is_number && lists(kNumberKinds, base)) return OptionUse::plain;
  // A request has the options of a decoder and of a chat.
  const bool is_request = base == "request" && (lists(words_of(kPlain, "decoder"), key) ||
                                                lists(words_of(kPlain, "chat"), key));
  const bool is_plain =
      is_request || lists(words_of(kPlain, base), key) || is_of_plain_group(base, key);
  return is_plain ? OptionUse::plain : OptionUse::default_;
}

} // namespace dllm::lua
