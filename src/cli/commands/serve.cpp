// dllm serve gives programs texts over HTTP, in the form of OpenAI's API.

#include "../command.h"
#include "../http/own_host.h"
#include "../processes/process.h"
#include "../pulling/pulling.h"
#include "../run_settings.h"
#include "../serve/models_file.h"
#include "../serve/service.h"
#include "../serve/shallow_json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> keys_of(const Context& context) {
  std::vector<std::string> keys;
  if (!context.has("api-key-file")) return keys;
  const std::string& path = context.text("api-key-file");
  std::ifstream file(path);
  if (!file) throw Failure(DLLM_NOT_FOUND, "cannot read the keys in " + path);
  for (std::string line; std::getline(file, line);) {
    constexpr const char* kBlank = " \t\r";
    const size_t first = line.find_first_not_of(kBlank);
    if (first == std::string::npos) continue;
    keys.push_back(line.substr(first, line.find_last_not_of(kBlank) - first + 1));
  }
  if (keys.empty()) throw Failure(DLLM_INVALID_ARGUMENT, path + " has no key, one a line");
  return keys;
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    if (end > at) words.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

// Returns the name of a model: "org/name" in the cache of the hub, else the last part of its path
// without the ending of a file.
std::string name_of(const std::string& model) {
  std::filesystem::path path(model);
  for (const std::filesystem::path& part : path) {
    constexpr std::string_view kBegin = "models--";
    std::string name = part.string();
    const size_t dashes = name.find("--", kBegin.size());
    if (!name.starts_with(kBegin) || dashes == std::string::npos) continue;
    return name.substr(kBegin.size(), dashes - kBegin.size()) + '/' + name.substr(dashes + 2);
  }
  if (path.filename().empty()) path = path.parent_path();
  return path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
}

int64_t in_range(const Context& context, const char* name, int64_t least, int64_t most) {
  const int64_t value = context.number(name);
  if (value < least || value > most) {
    throw UsageFailure("--" + std::string(name) + " takes " + std::to_string(least) + " to " +
                       std::to_string(most) + ", not " + context.text(name));
  }
  return value;
}

// Returns the settings of requests that do not set them: a JSON object, or a file with one.
Json default_settings(const Context& context) {
  if (!context.has("settings")) return Json::object();
  const std::string& word = context.text("settings");
  const std::string json = word.find_first_of("{[") == 0 ? word : read_all(word);
  const Json given = parse_shallow(json);
  if (!given.is_object()) throw UsageFailure("--settings is not a JSON object, as {\"steps\": 32}");
  return request_defaults(given, "--settings");
}

// Reads a request with the settings of the server, so that a mistake in them ends the program and
// is not an error of each client. A template may refuse the message.
void try_settings(const Queue& queue, const ModelEntry& entry, dllm_task* task) {
  const bool is_formed = has_constraint(entry.settings);
  const auto read = [&](Json request) {
    if (!is_formed) request["length"] = 1; // a model may have few positions
    request.update(entry.settings);
    if (!entry.chat_template.empty()) request["template"] = entry.chat_template;
    submit_request(queue, request, Json::object(), task,
                   [&](int64_t number) { dllm_queue_remove(queue.get(), number, nullptr); });
  };
  read({{"prompt", "word"}});
  if (entry.chat_template.empty()) return;
  try {
    read({{"messages", Json::array({{{"role", "user"}, {"content", "word"}}})}});
  } catch (const Failure& failure) {
    if (failure.status() == DLLM_NOT_FOUND) throw;
  }
}

// Returns the bytes of the weights in the files of a model, a run or a checkpoint. 0: not known.
int64_t bytes_of_weights(const Context& context, const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::is_regular_file(path, error)) return static_cast<int64_t>(fs::file_size(path, error));
  const std::string checkpoint = latest_of_run(context, path);
  fs::path folder = checkpoint.empty() ? path : checkpoint;
  if (fs::is_directory(folder / "model", error)) folder /= "model";
  int64_t bytes = 0;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".safetensors" || it->path().extension() == ".gguf")
      bytes += static_cast<int64_t>(it->file_size(error));
  }
  return bytes;
}

std::vector<std::string> adapters_of(const Context& context) {
  return Json::parse(context.option("queue", "adapter_folders")).get<std::vector<std::string>>();
}

// Fails for a folder that has no adapter in the format of PEFT, before a request fails for it.
void check_adapter(const ModelEntry& entry, const std::string& adapter) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path folder = adapter.substr(adapter.find('=') + 1);
  if (fs::exists(folder / "adapter_config.json", ignored)) return;
  const bool is_run = fs::exists(folder / "run.json", ignored);
  throw Failure(DLLM_NOT_FOUND,
                "adapter \"" + adapter_name(adapter) + "\" of model \"" + entry.name +
                    "\": " + folder.string() + " has no adapter_config.json",
                is_run ? "dllm export " + folder.string() + " FOLDER writes the adapter of a run"
                       : "name a folder in the format of PEFT, as NAME=FOLDER");
}

// Returns the models that the server has, with their paths on this machine.
std::vector<ModelEntry> entries_of(const Context& context) {
  ModelEntry one;
  one.chat_template = given_template(context);
  one.settings = default_settings(context);
  std::vector<ModelEntry> entries;
  if (!context.has("models")) {
    if (!context.has("model"))
      throw UsageFailure("a model is missing", "example: dllm serve runs/first --port 8080");
    one.path = context.text("model");
    one.name = context.has("name") ? context.text("name") : name_of(one.path);
    one.adapters = adapters_of(context);
    entries.push_back(std::move(one));
  } else {
    if (context.has("model"))
      throw UsageFailure("--models names the models, and so does " + context.text("model"),
                         "write " + context.text("model") + " into the file");
    refuse_typed(context, "queue", "adapter_folders", "--models names the adapters of each model");
    refuse_typed(context, "model", "adapter", "--models names the adapters of each model");
    if (context.has("name")) throw UsageFailure("--name: --models has a name for each model");
    entries = read_models_file(context.text("models"), one);
  }
  for (ModelEntry& entry : entries) {
    entry.path = model_path(entry.path, context);
    for (std::string& adapter : entry.adapters) {
      const size_t path = adapter.find('=') + 1; // the library refuses a text without it
      if (context.has("models"))
        adapter = adapter.substr(0, path) + model_path(adapter.substr(path), context);
      check_adapter(entry, adapter);
    }
    if (entry.chat_template.empty())
      entry.chat_template = row_settings_of(entry.path, context).chat_template();
    entry.bytes = bytes_of_weights(context, entry.path);
  }
  return entries;
}

ServiceSettings settings_of(const Context& context) {
  constexpr int64_t kMebibyte = 1 << 20;
  ServiceSettings settings;
  settings.keys = keys_of(context);
  settings.timeout = context.real("timeout");
  settings.most_priority = context.number("most-priority");
  settings.http.most_receiving = context.real("receive");
  settings.http.address = context.text("host");
  settings.http.port = in_range(context, "port", 0, 65535);
  settings.http.most_body = in_range(context, "max-body", 1, 1024) * kMebibyte;
  settings.http.origins = words_of(context.has("origins") ? context.text("origins") : "");
  settings.http.hosts = words_of(context.has("hosts") ? context.text("hosts") : "");
  for (const char* seconds : {"timeout", "receive", "drain"}) {
    if (!(context.real(seconds) >= 0))
      throw UsageFailure("--" + std::string(seconds) + " takes 0 or more seconds, not " +
                         context.text(seconds));
  }
  return settings;
}

// Returns the most bytes of weights that are loaded together; 0: no limit.
int64_t most_bytes_of(const Context& context) {
  const double gibibytes = context.real("weights-memory");
  if (!(gibibytes >= 0) || gibibytes > 1e6)
    throw UsageFailure("--weights-memory takes 0 to 1000000 GiB, not " +
                       context.text("weights-memory"));
  return static_cast<int64_t>(gibibytes * (1 << 30));
}

// Loads models for the shelf of a server. All of them run on one engine.
class ModelLoader {
public:
  explicit ModelLoader(const Context& context) : context_(context), engine_(open_engine(context)) {}

  ModelShelf::Loaded load(const ModelEntry& entry, dllm_task* task) const {
    const auto model = open_model(context_, engine_.get(), entry.path, task);
    const auto tokenizer = open_prompt_tokenizer(context_, entry.path);
    const auto options = queue_options(entry);
    const auto make_queue = [&] {
      return Queue(make<dllm_queue>([&](dllm_queue** out, dllm_error* err) {
        return dllm_queue_new(model.get(), tokenizer.get(), options.get(), out, err);
      }));
    };
    try_settings(make_queue(), entry, task); // a queue of its own: /metrics counts no request of it
    return {make_queue(), model_number(model.get(), "bytes")};
  }

private:
  Owned<dllm_options> queue_options(const ModelEntry& entry) const {
    auto options = make<dllm_options>(
        [](dllm_options** out, dllm_error* err) { return dllm_options_new("queue", out, err); });
    Json all = Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_options_to_json(context_.options("queue"), out, err);
    }));
    all["adapter_folders"] = entry.adapters;
    const std::string json = all.dump();
    call([&](dllm_error* err) {
      return dllm_options_set_json(options.get(), json.data(), static_cast<int64_t>(json.size()),
                                   err);
    });
    return options;
  }

  const Context& context_;
  Owned<dllm_engine> engine_;
};

// Prints the address for programs, and what a person should know.
void print_start(const Service& service, const ServiceSettings& settings, const ModelShelf& shelf) {
  const std::string& host = settings.http.address;
  const std::string shown = host.find(':') != std::string::npos ? "[" + host + "]" : host;
  std::printf("http://%s:%lld/v1\n", shown.c_str(), static_cast<long long>(service.port()));
  std::fflush(stdout);
  std::string names;
  for (const ModelEntry& entry : shelf.entries())
    names += (names.empty() ? "\"" : ", \"") + entry.name + '"';
  const Json first = shelf.describe().at(0).at("queue");
  std::fprintf(stderr, "%s %s, policy %s; a page is at /; Ctrl-C or SIGTERM ends the server\n",
               shelf.entries().size() > 1 ? "models" : "model", names.c_str(),
               first.at("policy").get<std::string>().c_str());
  if (is_loopback(host) || !settings.keys.empty()) return;
  std::fprintf(stderr,
               "every machine that reaches %s may ask; --api-key-file FILE asks for a key\n",
               shown.c_str());
}

int serve(Context& context) {
  const ServiceSettings settings = settings_of(context);
  const int64_t most_bytes = most_bytes_of(context);
  std::vector<ModelEntry> entries = entries_of(context);
  const ModelLoader loader(context);
  ModelShelf shelf(std::move(entries), most_bytes, [&](const ModelEntry& entry, dllm_task* task) {
    return loader.load(entry, task);
  });
  shelf.load(
      0, [] { return true; }, context.task());
  Service service(shelf, settings);
  print_start(service, settings, shelf);
  service.run(context.task(), context.real("drain"));
  return 0;
}

} // namespace

Command serve_command() {
  using Kind = Argument::Kind;
  return {
      "serve",
      "answer requests over HTTP in the form of OpenAI's API",
      "dllm serve runs/first --port 8080\n"
      "  curl http://127.0.0.1:8080/v1/completions -d '{\"prompt\": \"Once\", \"max_tokens\": "
      "32}'",
      {{Kind::text, "model", "", "a model folder, a GGUF file or a run folder"},
       {Kind::text, "models", "",
        "a JSON file with several models by name: {\"chat\": \"org/name\", \"story\": "
        "{\"model\": \"runs/first\", \"template\": \"alpaca\"}}; the first answers requests "
        "that name none"},
       {Kind::real, "weights-memory", "0",
        "most GiB of weights of the models of --models together; models without requests are "
        "released for others; 0: no limit"},
       {Kind::number, "port", "8080", "0: a free one"},
       {Kind::text, "host", "127.0.0.1",
        "address to listen on; 0.0.0.0: every machine of the network may ask"},
       {Kind::text, "name", "", "the name of the model for clients; default: that of its path"},
       {Kind::text, "api-key-file", "",
        "a file of keys, one a line; clients send one of them; default: none is asked for"},
       {Kind::text, "origins", "",
        "pages of other origins that may ask, with commas between them; *: all"},
       {Kind::text, "hosts", "",
        "names in the header Host that are answered in addition to localhost, with commas "
        "between them, for a proxy that passes them on; *: all"},
       {Kind::text, "template", "",
        "chat template: chatml, llama3, qwen, alpaca, or a file that holds one; default: the "
        "model's own, and the one that a run was trained with"},
       {Kind::text, "settings", "",
        "settings of requests that do not set them: a JSON object or its file, with options of "
        "dllm generate: {\"steps\": 32, \"length\": 128}"},
       {Kind::real, "timeout", "0", "most seconds of a request; 0: no limit"},
       {Kind::number, "most-priority", "0",
        "the highest dllm.priority of a request; a client may always ask for a lower one"},
       {Kind::number, "max-body", "8", "most MiB of the body of a request"},
       {Kind::real, "receive", "60", "most seconds in which a client sends a request; 0: no limit"},
       {Kind::real, "drain", "30", "most seconds that open requests get at the end"}},
      {"engine", "model", "queue"},
      serve,
      false,
      // The server removes its requests itself. One whose client is slow is never forgotten.
      {{"queue", "kept", "16777216"}},
      {"model"}};
}

} // namespace dllm::cli
