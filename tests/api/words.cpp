// Words that the headers promise, against the library: features, names of engines, keys of options,
// and the example of objective.h.
//   words INCLUDE_FOLDER

#include "world.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

using Words = std::set<std::string>;

bool is_engine(const char* kind) {
  const char* name = nullptr;
  for (int64_t i = 0; (name = dllm_registry_name("engine", i)) != nullptr; ++i) {
    if (std::string(name) == kind) return true;
  }
  return false;
}

void test_features(struct world* w) {
  const auto info = nlohmann::json::parse(dllm_build_info());
  dllm_lua* lua = nullptr;
  const bool runs_scripts = dllm_lua_new(nullptr, &lua, w->err) == DLLM_OK;
  dllm_lua_release(lua);
  CHECK(dllm_has_feature("lua") == (runs_scripts ? 1 : 0));
  CHECK(info.at("lua").get<bool>() == runs_scripts);

  // Without plugins an engine of kind pjrt fails too, but not because this build has none.
  dllm_options* opts =
      make_options("engine", R"({"kind": "pjrt", "plugin": "/nowhere.so"})", w->err);
  dllm_engine* engine = nullptr;
  const dllm_status status = dllm_engine_new(opts, &engine, w->err);
  CHECK(status != DLLM_OK);
  const bool has_pjrt = status != DLLM_UNIMPLEMENTED;
  dllm_options_release(opts);
  CHECK(dllm_has_feature("pjrt") == (has_pjrt ? 1 : 0));
  CHECK(info.at("pjrt").get<bool>() == has_pjrt);
  CHECK(is_engine("pjrt") == has_pjrt);
  CHECK(is_engine("cpu"));

  opts = make_options("engine", R"({"thread_pool": "openmp", "threads": 2})", w->err);
  const dllm_status with_openmp = dllm_engine_new(opts, &engine, w->err);
  const bool has_openmp = with_openmp == DLLM_OK;
  CHECK(has_openmp || with_openmp == DLLM_UNIMPLEMENTED);
  CHECK(dllm_has_feature("openmp") == (has_openmp ? 1 : 0));
  CHECK(info.at("openmp").get<bool>() == has_openmp);
  if (has_openmp) {
    dllm_buffer* text = dllm_buffer_new();
    NEED(dllm_engine_describe(engine, text, w->err), w->err);
    const auto made = nlohmann::json::parse(static_cast<const char*>(dllm_buffer_data(text)));
    CHECK(made.at("thread_pool") == "openmp" && made.at("threads") == 2);
    dllm_buffer_release(text);
    dllm_engine_release(engine);
  }
  dllm_options_release(opts);

  int64_t bytes[2] = {0, 0};
  const char* forms[2] = {R"({"dtype": "f32"})", R"({"dtype": "bf16"})"};
  for (int i = 0; i < 2; ++i) {
    const char config[] =
        R"({"model_type": "llama", "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2,
            "num_attention_heads": 2, "intermediate_size": 64})";
    dllm_options* form = make_options("model", forms[i], w->err);
    dllm_model* model = nullptr;
    NEED(dllm_model_new(w->engine, config, sizeof config - 1, form, nullptr, &model, w->err),
         w->err);
    NEED(dllm_model_i64(model, "bytes", &bytes[i], w->err), w->err);
    dllm_model_release(model);
    dllm_options_release(form);
  }
  CHECK(dllm_has_feature("bf16") == 1);
  CHECK(bytes[1] < bytes[0] * 6 / 10);
  CHECK(dllm_has_feature("teleport") == 0);
  CHECK(dllm_has_feature(nullptr) == 0);
}

// The three calls of the header, word for word.
void test_objective(struct world* w) {
  const int64_t dims[2] = {2, 8}, seed = 7, step = 0;
  const int32_t ids[16] = {1, 2, 3, 4, 5, 6, 7, 8, 8, 7, 6, 5, 4, 3, 2, 1};
  dllm_batch *batch = nullptr, *prepared = nullptr, *mine = nullptr;
  dllm_objective* objective = nullptr;
  double loss = 0, same = 0;
  NEED(dllm_batch_new(&batch, w->err), w->err);
  NEED(dllm_batch_set(batch, "ids", DLLM_I32, dims, 2, ids, w->err), w->err);
  NEED(dllm_objective_new("mdlm", nullptr, nullptr, &objective, w->err), w->err);
  NEED(dllm_objective_prepare(objective, w->model, batch, seed, step, &prepared, w->err), w->err);
  NEED(dllm_objective_loss(objective, w->model, prepared, seed, nullptr, &loss, w->err), w->err);
  CHECK(loss > 0);
  NEED(dllm_objective_loss(objective, w->model, batch, seed, nullptr, &same, w->err), w->err);
  CHECK(loss == same); // the noise is the one the loss itself draws
  // The rows' own sums add up to it.
  dllm_batch* of_rows = nullptr;
  NEED(dllm_objective_row_losses(objective, w->model, batch, seed, nullptr, &of_rows, w->err),
       w->err);
  double numbers[2][2] = {};
  for (int i = 0; i < 2; ++i) {
    dllm_tensor* array = nullptr;
    NEED(dllm_batch_array(of_rows, i == 0 ? "sums" : "counts", &array, w->err), w->err);
    NEED(dllm_tensor_read(array, DLLM_F64, numbers[i], sizeof numbers[i], w->err), w->err);
    dllm_tensor_release(array);
  }
  const double mean = (numbers[0][0] + numbers[0][1]) / (numbers[1][0] + numbers[1][1]);
  CHECK(numbers[1][0] == 8 && numbers[1][1] == 8);
  CHECK(std::abs(mean - loss) < 1e-5 * loss);
  dllm_batch_release(of_rows);
  // Without a model the objective needs the mask id of its options.
  CHECK(dllm_objective_prepare(objective, nullptr, batch, seed, step, &mine, w->err) ==
        DLLM_FAILED_PRECONDITION);
  CHECK(mine == nullptr);
  const int32_t wild[16] = {1, 2, 1 << 20};
  NEED(dllm_batch_set(batch, "ids", DLLM_I32, dims, 2, wild, w->err), w->err);
  CHECK(dllm_objective_prepare(objective, w->model, batch, seed, step, &mine, w->err) ==
        DLLM_INVALID_ARGUMENT);
  CHECK(std::string(dllm_error_message(w->err)).find("ids[0, 2] = 1048576") != std::string::npos);
  dllm_objective_release(objective);
  dllm_batch_release(prepared);
  dllm_batch_release(batch);
}

nlohmann::json schema_of(const std::string& kind, dllm_error* err) {
  dllm_buffer* text = dllm_buffer_new();
  NEED(dllm_options_schema(kind.c_str(), text, err), err);
  auto schema = nlohmann::json::parse(static_cast<const char*>(dllm_buffer_data(text)));
  dllm_buffer_release(text);
  return schema;
}

Words keys_of(const std::string& kind, dllm_error* err) {
  Words keys;
  const auto schema = schema_of(kind, err);
  for (const auto& key : schema.at("keys")) keys.insert(key.at("name").get<std::string>());
  return keys;
}

// The text of every parameter behind `kind "x":`, as {x, text}.
std::vector<std::pair<std::string, std::string>> option_texts(const std::string& header) {
  std::vector<std::pair<std::string, std::string>> texts;
  const std::regex start(R"re(kind "([a-z_]+)"( or "[a-z_]+:<[a-z]+>")?:)re");
  for (std::sregex_iterator at(header.begin(), header.end(), start), none; at != none; ++at) {
    const auto from = static_cast<size_t>(at->position() + at->length());
    // Up to the next parameter (three blanks and a name) or the end of the block.
    std::string text = header.substr(from);
    std::smatch next;
    if (std::regex_search(text, next, std::regex(R"(\n \*   [a-z_]|\n \*\n|\*/)")))
      text.resize(static_cast<size_t>(next.position()));
    texts.emplace_back((*at)[1].str(), std::regex_replace(text, std::regex(R"(\n \*)"), " "));
  }
  return texts;
}

// The keys such a text lists, notes in brackets left out. Pieces of several words are prose.
std::map<std::string, Words> listed_keys(const std::string& header) {
  std::map<std::string, Words> listed;
  for (auto& [kind, text] : option_texts(header)) {
    text = std::regex_replace(text, std::regex(R"(\([^)]*\))"), " ");
    text = std::regex_replace(text, std::regex("; of [a-z]+:"), ","); // keys of one optimizer
    const std::regex word(R"(^\s*([a-z][a-z0-9_.]*)\s*(and .*)?$)");
    size_t begin = 0;
    while (begin <= text.size()) {
      const size_t end = std::min(text.find(',', begin), text.size());
      std::smatch found;
      const std::string piece = text.substr(begin, end - begin);
      if (std::regex_match(piece, found, word)) listed[kind].insert(found[1].str());
      begin = end + 1;
    }
  }
  return listed;
}

// Returns the keys of the groups that a header names for a kind: those of group "draw".
Words keys_of_named_groups(const std::string& kind, const std::string& header, dllm_error* err) {
  Words keys;
  for (const auto& [own, text] : option_texts(header)) {
    if (own != kind) continue;
    const std::regex named("those of group +\"([a-z]+)\"");
    for (std::sregex_iterator at(text.begin(), text.end(), named), none; at != none; ++at) {
      const size_t before = keys.size();
      const auto schema = schema_of(kind, err);
      for (const auto& key : schema.at("keys")) {
        if (key.value("group", "") == (*at)[1].str()) keys.insert(key.at("name"));
      }
      check_line(keys.size() > before,
                 ("keys of " + kind + " have no group " + (*at)[1].str()).c_str(), __FILE__,
                 __LINE__);
    }
  }
  return keys;
}

std::string joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += " " + word;
  return text;
}

Words without(const Words& all, const Words& these) {
  Words rest;
  std::set_difference(all.begin(), all.end(), these.begin(), these.end(),
                      std::inserter(rest, rest.end()));
  return rest;
}

void test_options(const std::string& folder, dllm_error* err) {
  std::map<std::string, Words> listed;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/dllm")) {
    if (entry.path().extension() != ".h") continue;
    std::ifstream file(entry.path());
    const std::string text(std::istreambuf_iterator<char>(file), {});
    for (const auto& [kind, words] : listed_keys(text)) {
      listed[kind].insert(words.begin(), words.end());
      const Words grouped = keys_of_named_groups(kind, text, err);
      listed[kind].insert(grouped.begin(), grouped.end());
    }
  }
  for (const auto& [kind, words] : listed) {
    const Words unknown = without(words, keys_of(kind, err));
    check_line(unknown.empty(),
               ("keys of " + kind + " that no schema has:" + joined(unknown)).c_str(), __FILE__,
               __LINE__);
  }
  for (const char* kind :
       {"forward", "loader", "model", "objective", "save", "sink", "slot", "trainer"}) {
    const Words missing = without(keys_of(kind, err), listed[kind]);
    check_line(
        missing.empty(),
        ("keys of " + std::string(kind) + " that no header names:" + joined(missing)).c_str(),
        __FILE__, __LINE__);
  }
  CHECK(listed["trainer"].size() > 20);
  CHECK(listed.size() > 12);
}

// "key (default 7)" and "key (this that other)" in the headers, against the defaults and choices of
// the schemas. Words in brackets behind a key without choices are prose, and so is what is more
// than a list of names.
struct Noted {
  int defaults = 0, choices = 0;
};

void check_note(const std::string& kind, const nlohmann::json& key, const std::string& note,
                Noted& noted) {
  const std::string name = kind + "." + key.at("name").get<std::string>();
  std::smatch found;
  if (std::regex_search(note, found, std::regex(R"(^default ([^ ;,]+))"))) {
    const std::string stands = found[1].str();
    const auto is = key.at("default");
    const std::string plain = is.is_string()    ? is.get<std::string>()
                              : is.is_boolean() ? (is.get<bool>() ? "1" : "0")
                                                : is.dump();
    check_line(stands == plain,
               (name + ": the header says default " + stands + ", it is " + plain).c_str(),
               __FILE__, __LINE__);
    ++noted.defaults;
  }
  if (!key.contains("choices")) return;
  Words choices, words;
  for (const auto& choice : key.at("choices")) choices.insert(choice.get<std::string>());
  const std::regex word(R"([A-Za-z0-9_-]+)");
  for (std::sregex_iterator at(note.begin(), note.end(), word), none; at != none; ++at)
    words.insert(at->str());
  if (note.find_first_of(":;,") != std::string::npos ||
      without(words, choices).size() == words.size())
    return;
  check_line(
      words == choices,
      (name + ": the header has" + joined(words) + ", the choices are" + joined(choices)).c_str(),
      __FILE__, __LINE__);
  ++noted.choices;
}

void test_notes(const std::string& folder, dllm_error* err) {
  Noted noted;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/dllm")) {
    if (entry.path().extension() != ".h") continue;
    std::ifstream file(entry.path());
    const std::string header(std::istreambuf_iterator<char>(file), {});
    for (const auto& [kind, text] : option_texts(header)) {
      const auto schema = schema_of(kind, err);
      for (const auto& key : schema.at("keys")) {
        const std::regex behind("(^|[ ,])" + key.at("name").get<std::string>() + R"( \(([^)]*)\))");
        std::smatch found;
        if (std::regex_search(text, found, behind))
          check_note(kind, key, std::regex_replace(found[2].str(), std::regex(" +"), " "), noted);
      }
    }
  }
  std::printf("# %d defaults and %d lists of choices in the headers\n", noted.defaults,
              noted.choices);
  CHECK(noted.defaults >= 1 && noted.choices >= 5);
}

// The names in quotes of parameter `key` of a function, whose block ends with its declaration.
Words names_in_block(const std::string& path, const std::string& function) {
  std::ifstream file(path);
  const std::string header(std::istreambuf_iterator<char>(file), {});
  const size_t end = header.find("DLLM_API dllm_status " + function + "(");
  const size_t begin = header.rfind(" *   key ", end);
  const std::string block = header.substr(begin, header.find(" *   out ", begin) - begin);
  Words names;
  const std::regex quoted("\"([a-z_]+)\"");
  for (std::sregex_iterator at(block.begin(), block.end(), quoted), none; at != none; ++at)
    names.insert((*at)[1].str());
  return names;
}

Words keys_in(const nlohmann::json& object) {
  Words keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

// A header lists the metrics that a handle describes, and each has a unit.
void check_metrics(const nlohmann::json& described, const Words& listed) {
  const Words metrics = keys_in(described.at("metrics"));
  CHECK(metrics.size() > 10);
  CHECK(keys_in(described.at("units")) == metrics);
  check_line(metrics == listed,
             ("metrics:" + joined(metrics) + ", listed:" + joined(listed)).c_str(), __FILE__,
             __LINE__);
}

void test_metrics(struct world* w, const std::string& folder) {
  dllm_buffer* text = dllm_buffer_new();
  dllm_trainer* trainer = make_trainer(w->model, "{}", w->err);
  NEED(dllm_trainer_describe(trainer, text, w->err), w->err);
  const auto of_trainer = nlohmann::json::parse(static_cast<const char*>(dllm_buffer_data(text)));
  Words listed = names_in_block(folder + "/dllm/trainer.h", "dllm_trainer_metric");
  CHECK(listed.erase("nll") == 1); // of an objective
  for (const char* name : {"held_out_loss", "held_out_stderr", "held_out_bits_per_byte"})
    CHECK(listed.erase(name) == 1); // of an evaluation
  check_metrics(of_trainer, listed);
  dllm_trainer_release(trainer);
  dllm_decoder* decoder = nullptr;
  NEED(dllm_decoder_new(w->model, nullptr, &decoder, w->err), w->err);
  NEED(dllm_decoder_describe(decoder, text, w->err), w->err);
  const auto of_decoder = nlohmann::json::parse(static_cast<const char*>(dllm_buffer_data(text)));
  check_metrics(of_decoder, names_in_block(folder + "/dllm/decoder.h", "dllm_decoder_metric"));
  for (const auto& [name, value] : of_decoder.at("metrics").items()) {
    double read = -1;
    NEED(dllm_decoder_metric(decoder, -1, name.c_str(), &read, w->err), w->err);
    CHECK(read == value.get<double>());
  }
  dllm_decoder_release(decoder);
  dllm_buffer_release(text);
}

// What the schema of an objective says about it holds: its words are those of the header, its
// policy and the options of a sample exist.
void test_objective_facts(struct world* w, const std::string& folder) {
  std::ifstream file(folder + "/dllm/options.h");
  const std::string header(std::istreambuf_iterator<char>(file), {});
  const char* name = nullptr;
  int64_t count = 0;
  for (; (name = dllm_registry_name("objective", count)) != nullptr; ++count) {
    const auto about = schema_of(std::string("objective:") + name, w->err).at("about");
    const auto rows = about.at("rows").get<std::string>();
    CHECK(header.find(" " + rows) != std::string::npos);
    for (const auto& [key, value] : about.items())
      CHECK(header.find("\"" + key + "\"") != std::string::npos);
    const auto sample = about.at("sample");
    const auto policy = about.at("policy").get<std::string>();
    CHECK(policy.empty() || policy == sample.at("policy"));
    const std::string kind = "decoder:" + sample.at("policy").get<std::string>();
    dllm_options_release(make_options(kind.c_str(), sample.dump().c_str(), w->err));
  }
  CHECK(count > 10);
  CHECK(!schema_of("objective", w->err).contains("about"));
}

} // namespace

int main(int argc, char** argv) {
  struct world w;
  open_world(&w, 1);
  test_features(&w);
  test_objective(&w);
  test_options(argc > 1 ? argv[1] : "include", w.err);
  test_notes(argc > 1 ? argv[1] : "include", w.err);
  test_objective_facts(&w, argc > 1 ? argv[1] : "include");
  test_metrics(&w, argc > 1 ? argv[1] : "include");
  close_world(&w);
  return failures == 0 ? 0 : 1;
}
