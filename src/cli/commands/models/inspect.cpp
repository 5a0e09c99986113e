// dllm inspect prints the contents of a model, a checkpoint or a run without changing it.

#include "../../command.h"
#include "../compile/compile_report.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

void row(const std::string& name, const std::string& value) {
  std::printf("  %-13s %s\n", name.c_str(), value.c_str());
}

std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Cuts a text to one line, because a chat template has many.
std::string short_text(const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : dump(value);
  const size_t end = std::min(text.find('\n'), size_t{100});
  if (end >= text.size()) return text;
  return text.substr(0, end) + " ... (" + std::to_string(text.size()) + " bytes)";
}

// Replaces the number in "model.layers.3.mlp.up_proj.weight": "model.layers.*.mlp.up_proj.weight".
std::string without_numbers(const std::string& name) {
  std::string out;
  std::istringstream parts(name);
  for (std::string part; std::getline(parts, part, '.');) {
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    out += (out.empty() ? "" : ".") + (number ? std::string("*") : part);
  }
  return out;
}

struct Group {
  std::string name, dtype, shape;
  int64_t count = 0;
};

void print_tensors(const Json& tensors, bool all) {
  std::vector<Group> groups;
  std::map<std::string, size_t> known;
  for (const Json& tensor : tensors) {
    Group group{tensor.value("name", ""), tensor.value("dtype", ""),
                tensor.contains("shape") ? tensor["shape"].dump() : "", 1};
    if (!all) group.name = without_numbers(group.name);
    const auto [found, is_new] =
        known.try_emplace(group.name + group.dtype + group.shape, groups.size());
    if (is_new)
      groups.push_back(group);
    else
      ++groups[found->second].count;
  }
  std::printf("\ntensors%s\n", all ? "" : " (--tensors lists every one)");
  for (const Group& group : groups) {
    const std::string times = group.count > 1 ? "  x " + std::to_string(group.count) : "";
    std::printf("  %-56s %-5s %s%s\n", group.name.c_str(), group.dtype.c_str(), group.shape.c_str(),
                times.c_str());
  }
}

// Returns the text of the mask token of the config, else of the tokenizer.
std::string mask_text(const Json& model, const dllm_tokenizer* tokenizer) {
  int64_t id = model.value("mask_token_id", int64_t{-1});
  int32_t own = -1;
  if (id < 0 && tokenizer != nullptr &&
      dllm_tokenizer_id(tokenizer, "mask", &own, nullptr) == DLLM_OK)
    id = own;
  if (id < 0)
    return "none; training with a masked objective adds one, --model.mask-token names one";
  if (tokenizer == nullptr || id >= dllm_tokenizer_size(tokenizer)) return std::to_string(id);
  return std::to_string(id) + " " + dump(decode(tokenizer, {static_cast<int32_t>(id)}));
}

void print_model(const Json& model, const dllm_tokenizer* tokenizer) {
  row("family", model.value("family", "") + ", " + dump(model.at("layers")) + " layers of " +
                    dump(model.at("hidden")));
  row("attention", model.value("attention", "") + ", shift " + dump(model.at("shift")) +
                       (model.value("block_length", int64_t{0}) > 0
                            ? ", blocks of " + dump(model.at("block_length"))
                            : ""));
  row("mask token", mask_text(model, tokenizer));
  row("vocabulary",
      dump(model.at("vocab")) +
          (tokenizer == nullptr
               ? "; the model has no tokenizer"
               : "; the tokenizer has " + std::to_string(dllm_tokenizer_size(tokenizer))));
  row("length", dump(model.at("max_length")) + " positions at most");
}

// Prints the last losses of a run; skips an incomplete last line.
void print_losses(const std::string& path) {
  if (!std::filesystem::is_regular_file(path + "/metrics.jsonl")) return;
  std::istringstream lines(read_all(path + "/metrics.jsonl"));
  Json last;
  for (std::string line; std::getline(lines, line);) {
    const Json event = Json::parse(line, nullptr, false);
    if (event.is_object() && event.contains("loss") && event.contains("event"))
      last[event["event"].dump()] = event;
  }
  for (const auto& [name, event] : last.items()) {
    char text[80];
    std::snprintf(text, sizeof text, "%.4f at step %s", event.value("loss", 0.0),
                  dump(event.value("step", Json())).c_str());
    row(event["event"] == "eval"         ? "held-out loss"
        : event["event"] == "train_step" ? "loss"
                                         : name,
        text);
  }
}

std::string joined_names(const Json& names) {
  std::string all;
  for (const Json& name : names) all += (all.empty() ? "" : ", ") + name.get<std::string>();
  return all;
}

// Returns what is known of a part in one line: "tower, 2 layers of 64, 0.10 M, trained, ...".
std::string part_text(const Json& part) {
  std::string text = part.value("family", part.at("kind").get<std::string>());
  if (part.contains("layers"))
    text += ", " + dump(part["layers"]) + (part["layers"] == 1 ? " layer of " : " layers of ") +
            dump(part["hidden"]);
  if (part.contains("parameters")) {
    char count[40];
    std::snprintf(count, sizeof count, ", %.2f M", part["parameters"].get<double>() / 1e6);
    text += count;
  }
  if (part.contains("trained")) text += part["trained"] == true ? ", trained" : ", not trained";
  if (part.contains("reads")) text += ", reads " + joined_names(part["reads"]);
  if (part.contains("latents")) text += ", makes " + dump(part["latents"]) + " vectors";
  text += part.at("stored") == "value" ? std::string(", stored here")
                                       : ", read from " + part.at("address").get<std::string>();
  if (part.contains("hub")) text += ", " + part["hub"].get<std::string>() + " of the hub";
  return text;
}

Owned<dllm_tokenizer> tokenizer_of(const Context& context, const std::string& path) {
  try {
    return open_tokenizer(context, path);
  } catch (const Failure& failure) {
    if (failure.status() == DLLM_CANCELLED) throw;
    return nullptr; // weights without a tokenizer; dllm verify reports a damaged one
  }
}

void print_description(const Context& context, const Json& about) {
  const std::string path = context.text("path");
  std::printf("%s: %s%s\n", path.c_str(), about.value("kind", "").c_str(),
              about.contains("step") ? (" of step " + dump(about["step"])).c_str() : "");
  if (about.value("path", path) != path) row("path", about.value("path", ""));
  if (about.contains("model")) print_model(about["model"], tokenizer_of(context, path).get());
  char size[120];
  std::snprintf(size, sizeof size, "%.2f M in %zu tensors, %s",
                about.value("parameters", 0.0) / 1e6, about.at("tensors").size(),
                bytes_text(about.value("bytes", 0.0)).c_str());
  row("parameters", size);
  for (const Json& part : about.value("parts", Json::array()))
    row(part.at("name").get<std::string>(), part_text(part));
  print_losses(path);
  const bool sealed = about.value("kind", "") == "checkpoint";
  if (context.flag("verify")) {
    row("verified", sealed ? "every file has the size and the checksum that were saved with it"
                           : "every tensor is inside its file; there are no checksums to compare");
  }
  const Json metadata = about.value("metadata", Json::object());
  if (!metadata.empty()) std::printf("\nmetadata\n");
  for (const auto& [key, value] : metadata.items())
    std::printf("  %-40s %s\n", key.c_str(), short_text(value).c_str());
  print_tensors(about.at("tensors"), context.flag("tensors"));
}

// Fails for a token file of dllm tokenize, which holds rows and no model.
void refuse_token_file(const std::string& path) {
  constexpr std::string_view kMagic = "dllmtok1";
  std::string head(kMagic.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(head.data(), static_cast<std::streamsize>(head.size())) || head != kMagic) return;
  throw Failure(DLLM_INVALID_ARGUMENT, path + " is a token file: it holds rows, and no model",
                "dllm train --data " + path + " trains on it");
}

int inspect(Context& context) {
  const std::string path = context.text("path");
  refuse_token_file(path);
  const auto checkpoint = open_checkpoint(context, path);
  if (context.flag("verify")) {
    call([&](dllm_error* err) {
      return dllm_checkpoint_verify(checkpoint.get(), context.task(), err);
    });
  }
  Json about = Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_checkpoint_describe(checkpoint.get(), out, err);
  }));
  if (!context.json()) {
    print_description(context, about);
    return 0;
  }
  if (context.flag("verify")) about["verified"] = true;
  std::printf("%s\n", dump(about).c_str());
  return 0;
}

} // namespace

Command inspect_command() {
  using Kind = Argument::Kind;
  return {"inspect",
          "show the content of a model file, folder or checkpoint",
          "dllm inspect runs/quickstart",
          {{Kind::positional, "path", "",
            "a safetensors or GGUF file, a model folder, a checkpoint or a run", true},
           {Kind::flag, "tensors", "",
            "list every tensor; else the same tensor of all layers is one line"},
           {Kind::flag, "verify", "", "check every file against its checksum"}},
          {},
          inspect};
}

} // namespace dllm::cli
