#include "ckpt/model_place.h"

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/store/address.h"
#include "ckpt/checkpoint/checkpoint_folder.h"
#include "ckpt/part_names.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::ckpt {
namespace {

constexpr const char* kRecord = "trainer.json";
constexpr const char* kBaseFolder = "model"; // of a checkpoint without a list of parts

bool holds_tokenizer(const std::string& folder) {
  return file_exists(join_path(folder, "tokenizer.json")) ||
         file_exists(join_path(folder, "vocab.json"));
}

bool is_reference(const Json& part) {
  return part.at("stored") != "value";
}

std::string digest_of(const Json& part) {
  auto digest = part.at("digest").get<std::string>();
  if (digest.empty()) fail(Code::data_loss, "{}: a digest is empty", kRecord);
  return digest;
}

ModelPlace::Reference reference_of(const Json& part) {
  ModelPlace::Reference reference;
  reference.digest = digest_of(part);
  const Json formats = part.value("format_of", Json::object());
  for (const auto& [name, format] : formats.items())
    reference.formats[name] = format.get<std::string>();
  return reference;
}

// Returns the folder of a part by value, or the address of a part by reference.
std::string place_of(const Json& part, const std::string& checkpoint) {
  if (is_reference(part)) return part.at("address").get<std::string>();
  const auto folder = part.at("folder").get<std::string>();
  if (!is_safe_name(folder))
    fail(Code::data_loss, "{}: '{}' is not the name of a folder", kRecord, folder);
  return join_path(checkpoint, folder);
}

ModelPlace::Network network_of(const Json& part, const std::string& checkpoint) {
  ModelPlace::Network network;
  network.name = part.at("name").get<std::string>();
  network.folder = place_of(part, checkpoint);
  if (!is_reference(part)) return network;
  network.reference = reference_of(part);
  // Older checkpoints have the config of the base alone.
  if (network.name == kBasePart || part.value("config", Json()).is_object())
    network.use = {part.at("config").dump(), kRecord, part.value("new_mask", false)};
  return network;
}

ModelPlace place_of_parts(const Json& parts, const std::string& checkpoint) {
  ModelPlace place;
  for (const Json& part : parts) {
    const auto name = part.at("name").get<std::string>();
    if (part.value("kind", "") == "adapter") {
      place.adapters.push_back(
          {name, place_of(part, checkpoint), is_reference(part) ? digest_of(part) : ""});
      continue;
    }
    ModelPlace::Network network = network_of(part, checkpoint);
    if (name != kBasePart) {
      place.networks.push_back(std::move(network));
      continue;
    }
    place.base = std::move(network.folder);
    place.reference = std::move(network.reference);
    place.use = std::move(network.use);
  }
  const std::string tokenizer = join_path(checkpoint, kTokenizerFolder);
  if (place.reference && is_directory(tokenizer)) place.tokenizer = tokenizer;
  if (place.base.empty()) fail(Code::data_loss, "{}: the list of parts has no base", kRecord);
  return place;
}

std::string objective_of(const Json& record) {
  const Json objective = record.value("objective", Json::object());
  return objective.is_object() ? objective.value("name", "") : "";
}

ModelPlace at_path(const std::string& path) {
  ModelPlace place;
  place.base = path;
  return place;
}

ModelPlace place_in(const std::string& checkpoint) {
  const std::string record = join_path(checkpoint, kRecord);
  ModelPlace plain = at_path(join_path(checkpoint, kBaseFolder));
  plain.checkpoint = checkpoint;
  if (!file_exists(record)) return plain;
  const Json json = parse_json(read_text(record), record);
  try {
    ModelPlace place = plain;
    if (json.contains("parts")) place = place_of_parts(json["parts"], checkpoint);
    place.checkpoint = checkpoint;
    place.objective = objective_of(json);
    return place;
  } catch (const nlohmann::json::exception& error) {
    fail(Code::data_loss, "{}: parts: {}", record, error.what());
  }
}

} // namespace

ModelPlace model_place(const std::string& path) {
  if (!is_directory(path) || file_exists(join_path(path, "config.json"))) return at_path(path);
  const bool is_checkpoint =
      file_exists(join_path(path, kRecord)) || file_exists(join_path(path, "model/config.json"));
  if (is_checkpoint) return place_in(path);
  const std::vector<std::string> names = list_directory(path);
  if (std::ranges::none_of(names,
                           [](const auto& name) { return checkpoint_step(name).has_value(); }))
    return at_path(path);
  const auto latest = latest_checkpoint(path);
  if (!latest) {
    fail_with_hint(fmt::format("run dllm verify {} to see the errors of each checkpoint", path),
                   Code::not_found, "{}: no whole checkpoint is left", path);
  }
  return place_in(latest->folder);
}

void read_latest(const std::string& path, const std::function<void()>& read) {
  constexpr int kMostTries = 10;
  const bool is_run = !is_store_path(path) && is_directory(path);
  for (int tries = 1;; ++tries) {
    const std::vector<std::string> before =
        is_run ? list_directory(path) : std::vector<std::string>();
    try {
      return read();
    } catch (const Error&) {
      const bool is_gone = std::ranges::any_of(before, [&](const std::string& name) {
        return checkpoint_step(name) && !is_directory(join_path(path, name));
      });
      if (!is_gone || tries == kMostTries) throw;
    }
  }
}

std::string model_folder(const std::string& path) {
  return model_place(path).base;
}

std::string tokenizer_folder(const std::string& path) {
  if (!is_directory(path)) return path;
  std::string found = path;
  try {
    const ModelPlace place = model_place(path);
    found = place.tokenizer.empty() ? place.base : place.tokenizer;
  } catch (const Error& error) {
    if (error.code() != Code::not_found || !holds_tokenizer(path)) throw;
  }
  return holds_tokenizer(found) || !holds_tokenizer(path) ? found : path;
}

} // namespace dllm::ckpt
