// dllm devices lists the devices of this machine: the library's engine and installed plugins.

#include "../../command.h"
#include "../../processes/process.h"
#include "compile_report.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

void say(const Json& line) {
  std::printf("%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  std::fflush(stdout); // the next stage may be the last
}

// The config of a tiny model: two layers with every operation of a transformer.
constexpr const char* kConfig =
    R"({"model_type": "llama", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 64, "tie_word_embeddings": true,
        "dllm": {"attention": "bidirectional", "mask_token_id": 63}})";

// Returns the logits of one row of 16 tokens. The weights come from a seed, so they are equal on
// every engine.
std::vector<float> logits_on(dllm_engine* engine) {
  const auto model = make<dllm_model>([&](dllm_model** out, dllm_error* err) {
    const std::string config = kConfig;
    return dllm_model_new(engine, config.data(), static_cast<int64_t>(config.size()), nullptr,
                          nullptr, out, err);
  });
  const auto batch =
      make<dllm_batch>([](dllm_batch** out, dllm_error* err) { return dllm_batch_new(out, err); });
  std::vector<int32_t> ids(16);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 7 % 64);
  const int64_t dims[] = {1, static_cast<int64_t>(ids.size())};
  call([&](dllm_error* err) {
    return dllm_batch_set(batch.get(), "ids", DLLM_I32, dims, 2, ids.data(), err);
  });
  const auto result = make<dllm_batch>([&](dllm_batch** out, dllm_error* err) {
    return dllm_model_forward(model.get(), batch.get(), nullptr, nullptr, out, err);
  });
  const auto logits = make<dllm_tensor>([&](dllm_tensor** out, dllm_error* err) {
    return dllm_batch_array(result.get(), "logits", out, err);
  });
  std::vector<float> values(ids.size() * 64);
  call([&](dllm_error* err) {
    return dllm_tensor_read(logits.get(), DLLM_F32, values.data(),
                            static_cast<int64_t>(values.size() * sizeof(float)), err);
  });
  return values;
}

void run_small_model(dllm_engine* engine) {
  const auto started = Clock::now();
  const std::vector<float> theirs = logits_on(engine);
  const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
  const auto own = make<dllm_engine>(
      [](dllm_engine** out, dllm_error* err) { return dllm_engine_new(nullptr, out, err); });
  const std::vector<float> ours = logits_on(own.get());
  double difference = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    const double apart = std::fabs(static_cast<double>(theirs[i]) - ours[i]);
    difference = std::isfinite(apart) ? std::max(difference, apart) : INFINITY;
  }
  // JSON cannot hold a number that is not finite.
  say({{"stage", "ran"},
       {"seconds", seconds},
       {"difference", std::isfinite(difference) ? Json(difference) : Json()}});
}

// Runs in a child process, which a plugin may crash. It writes a line of JSON for each stage before
// the next begins:
//   {"stage": "loaded", "plugin": {...}}        dllm_plugin_describe
//   {"stage": "client", "engine": {...}}        dllm_engine_describe, with --probe
//   {"stage": "ran", "seconds": 1.2, "difference": 1e-7}   a small model, against the cpu engine
//   {"stage": "failed", "status": "unavailable", "message": "...", "hint": "..."}
int probe_plugin(Context& context) {
  end_with_parent();
  try {
    const auto plugin = Json::parse(context.option("engine", "plugin")).get<std::string>();
    say({{"stage", "loaded"}, {"plugin", Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
                                 return dllm_plugin_describe(plugin.c_str(), out, err);
                               }))}});
    if (!context.flag("probe")) return 0;
    const auto engine = open_engine(context);
    say({{"stage", "client"}, {"engine", Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
                                 return dllm_engine_describe(engine.get(), out, err);
                               }))}});
    run_small_model(engine.get());
    return 0;
  } catch (const Failure& failure) {
    say({{"stage", "failed"},
         {"status", dllm_status_name(failure.status())},
         {"message", failure.what()},
         {"hint", failure.hint()}});
    return kFailed;
  }
}

std::string word(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void row(const std::string& name, const std::string& value) {
  std::printf("  %-10s %s\n", name.c_str(), value.c_str());
}

Json own_engine(const Context& context) {
  Json settings = Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_options_to_json(context.options("engine"), out, err);
  }));
  settings["kind"] = "cpu";
  const auto options = make<dllm_options>(
      [](dllm_options** out, dllm_error* err) { return dllm_options_new("engine", out, err); });
  const std::string json = settings.dump();
  call([&](dllm_error* err) {
    return dllm_options_set_json(options.get(), json.data(), static_cast<int64_t>(json.size()),
                                 err);
  });
  const auto engine = make<dllm_engine>(
      [&](dllm_engine** out, dllm_error* err) { return dllm_engine_new(options.get(), out, err); });
  return Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_engine_describe(engine.get(), out, err);
  }));
}

// Returns the plugins to test: the requested plugin, or all plugins that are found.
Json plugins_here(const Context& context) {
  const auto wanted = Json::parse(context.option("engine", "plugin")).get<std::string>();
  if (!wanted.empty())
    return Json::array({{{"platform", wanted}, {"paths", {wanted}}, {"missing", ""}}});
  try {
    return Json::parse(
        text([](dllm_buffer* out, dllm_error* err) { return dllm_plugin_list(out, err); }));
  } catch (const Failure& failure) {
    if (failure.status() != DLLM_UNIMPLEMENTED) throw;
    return Json::array(
        {{{"platform", "pjrt"}, {"paths", Json::array()}, {"missing", failure.what()}}});
  }
}

// Tests one plugin in a child. Returns its result at each stage, and how it failed.
Json look_at(const Context& context, const std::string& path) {
  Json settings = Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_options_to_json(context.options("engine"), out, err);
  }));
  settings["kind"] = "pjrt";
  settings["plugin"] = path;
  ChildRequest request;
  request.arguments = {"devices", "--in-process", "--config", "/dev/stdin"};
  if (context.flag("probe")) request.arguments.push_back("--probe");
  request.input = Json{{"engine", settings}}.dump();
  request.time_limit = static_cast<double>(context.number("time-limit"));
  request.environment = {"TF_CPP_MIN_LOG_LEVEL=2"};
  request.waiting = [&](double) { return dllm_task_is_cancelled(context.task()) == 0; };
  const ChildResult child = run_child(request);
  if (child.how == ChildResult::How::stopped) throw Failure(DLLM_CANCELLED, "interrupted");

  Json found = {{"path", path}, {"state", "ok"}};
  for (size_t begin = 0; begin < child.output.size();) {
    const size_t end = std::min(child.output.find('\n', begin), child.output.size());
    const Json line = Json::parse(child.output.substr(begin, end - begin), nullptr, false);
    begin = end + 1;
    if (!line.is_object() || !line.contains("stage")) continue; // a plugin that prints
    const auto stage = line["stage"].get<std::string>();
    if (stage == "loaded") found["plugin"] = line["plugin"];
    if (stage == "client") found["engine"] = line["engine"];
    if (stage == "ran")
      found["ran"] = {{"seconds", line["seconds"]}, {"difference", line["difference"]}};
    if (stage != "failed") continue;
    found["state"] = "failed";
    for (const char* key : {"status", "message", "hint"}) found[key] = line[key];
  }
  if (child.ok() || found["state"] == "failed") return found;
  found["state"] = child.how == ChildResult::How::timed_out ? "timed_out" : "crashed";
  found["message"] = "the process that tried it " + child.story();
  found["last_words"] = child.last_lines(4);
  return found;
}

void print_engine(const Json& engine) {
  std::printf("engine cpu\n");
  row("threads", word(engine.at("threads")));
  row("simd", word(engine.at("simd")));
}

// Prints devices of one kind and size on one line: "4 x cpu", "8 x NVIDIA H200, 139.8 GiB each".
void print_devices(const Json& engine) {
  row("platform", word(engine.at("platform")));
  std::vector<std::pair<std::string, int>> kinds;
  for (const Json& device : engine.value("devices", Json::array())) {
    std::string kind = device.is_object() ? device.value("kind", "") : word(device);
    const Json memory =
        device.is_object() ? device.value("memory", Json::object()) : Json::object();
    if (memory.value("limit", 0.0) > 0)
      kind += ", " + bytes_text(memory["limit"].get<double>()) + " each";
    const auto same = [&](const auto& entry) { return entry.first == kind; };
    const auto found = std::find_if(kinds.begin(), kinds.end(), same);
    if (found == kinds.end())
      kinds.emplace_back(kind, 1);
    else
      ++found->second;
  }
  for (const auto& [kind, count] : kinds) row("devices", std::to_string(count) + " x " + kind);
}

void print_plugin(const std::string& platform, const Json& found) {
  std::printf("plugin %s\n", platform.c_str());
  row("path", word(found.contains("plugin") ? found["plugin"].at("path") : found.at("path")));
  if (found.contains("plugin")) {
    const Json& plugin = found["plugin"];
    const Json version = plugin.value("stablehlo", Json());
    row("api",
        word(plugin.at("api")) + (version.is_string() ? ", StableHLO " + word(version) : ""));
  }
  if (found.contains("engine")) print_devices(found["engine"]);
  if (found.contains("ran")) {
    char line[128];
    const Json& difference = found["ran"]["difference"];
    std::snprintf(line, sizeof line,
                  "a small model in %.2f s, at most %.1e away from the cpu engine",
                  found["ran"]["seconds"].get<double>(),
                  difference.is_number() ? difference.get<double>() : INFINITY);
    row("ran", line);
  }
  if (!found.contains("message")) return;
  row(word(found["state"]), word(found["message"]));
  if (found.contains("hint") && !found["hint"].get<std::string>().empty())
    row("", word(found["hint"]));
  for (const Json& line : found.value("last_words", Json::array())) row("", "| " + word(line));
}

int devices(Context& context) {
  if (context.flag("in-process")) return probe_plugin(context);
  Json all = {{"engines", Json::array({own_engine(context)})}, {"plugins", Json::array()}};
  if (!context.json()) print_engine(all["engines"][0]);
  bool failed = false;
  std::string said; // the list of folders is long
  for (const Json& platform : plugins_here(context)) {
    const auto name = platform.at("platform").get<std::string>();
    for (const Json& path : platform.at("paths")) {
      Json found = look_at(context, path.get<std::string>());
      failed = failed || found["state"] != "ok";
      if (!context.json()) print_plugin(name, found);
      found["platform"] = name;
      all["plugins"].push_back(std::move(found));
    }
    if (!platform.at("paths").empty()) continue;
    all["plugins"].push_back(
        {{"platform", name}, {"state", "missing"}, {"message", platform.at("missing")}});
    if (platform.contains("packages")) all["plugins"].back()["packages"] = platform["packages"];
    if (context.json()) continue;
    std::printf("plugin %s\n", name.c_str());
    const std::string missing = word(platform.at("missing"));
    row("missing", missing == said ? "these folders hold no plugin either" : missing);
    said = missing;
    if (platform.contains("packages")) {
      row("", "pip install " + word(platform["packages"]) + "; or scripts/fetch-plugins " + name +
                  ", and DLLM_PLUGINS names its folder");
    }
  }
  if (context.json())
    std::printf("%s\n", all.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  // A requested plugin must work; other installed plugins may need absent hardware.
  return failed && context.option("engine", "plugin") != "\"\"" ? kFailed : 0;
}

} // namespace

Command devices_command() {
  using Kind = Argument::Kind;
  return {"devices",
          "list the engines, plugins and devices that can compute here",
          "dllm devices --probe\n  Each plugin of hardware is loaded in its own process, so a "
          "plugin that crashes is reported and does no harm.",
          {{Kind::flag, "probe", "", "also open each plugin's devices and run a small model there"},
           {Kind::number, "time-limit", "120", "seconds that a plugin may take"},
           {Kind::flag, "in-process", "",
            "look at --plugin in this process, as the child process does"}},
          {"engine"},
          devices};
}

} // namespace dllm::cli
