// torch/models: logits and hidden states of whole checkpoints, in every attention mode that a case
// lists. Arrays <family>.{input_ids, valid, leftpad.valid}, <family>.<mode>.{logits, hidden.<i>}.

#include "base/error.h"
#include "base/files.h"
#include "handlers.h"
#include "model/model.h"
#include "runner.h"

#include <nlohmann/json.hpp>

#include <optional>

namespace dllm::parity {
namespace {

struct Mode {
  std::string attention = "bidirectional";
  int64_t block = 0;
  bool hides_padding = false;
  bool windows = false; // the framework's own mask, with the windows of sliding layers
  bool counts_real_tokens =
      false; // left padding: positions count valid tokens, padding stands at 1
};

// "full", "causal", "window", "pad", "leftpad", "blockcausal<n>" and combinations with "_"; nothing
// for a mode we do not know.
std::optional<Mode> parse_mode(std::string text) {
  constexpr std::string_view kBlock = "blockcausal";
  Mode mode;
  while (!text.empty()) {
    const size_t cut = text.find('_');
    const std::string word = text.substr(0, cut);
    text = cut == std::string::npos ? "" : text.substr(cut + 1);
    if (word == "causal")
      mode.attention = "causal";
    else if (word == "window")
      mode.windows = true;
    else if (word == "pad")
      mode.hides_padding = true;
    else if (word == "leftpad")
      mode.hides_padding = mode.counts_real_tokens = true;
    else if (word.starts_with(kBlock) && word.size() > kBlock.size() &&
             word.find_first_not_of("0123456789", kBlock.size()) == std::string::npos) {
      mode.attention = "block_causal";
      mode.block = std::stoll(word.substr(kBlock.size()));
    } else if (word != "full")
      return std::nullopt;
  }
  return mode;
}

// Positions of left-padded rows: 0, 1, ... over the valid tokens; padding gets 1, as the frameworks
// give it.
Tensor positions_of(const Tensor& valid) {
  const int64_t batch = valid.shape()[0], seq = valid.shape()[1];
  Tensor positions(DType::i32, valid.shape());
  const auto keep = valid.as<uint8_t>();
  const auto out = positions.mutable_as<int32_t>();
  for (int64_t b = 0; b < batch; ++b) {
    int32_t next = 0;
    for (int64_t i = b * seq; i < (b + 1) * seq; ++i) {
      out[static_cast<size_t>(i)] = keep[static_cast<size_t>(i)] != 0 ? next++ : 1;
    }
  }
  return positions;
}

// Encoders leave what their last layer gives.
void compare_hidden(Case& c, const Json& entry, const std::string& mode, const Batch& result,
                    bool encoder) {
  const Tensor& layers = result.at("layers"); // (layers + 1, batch, seq, hidden)
  const int64_t last = layers.shape()[0] - 1;
  const Tolerance tolerance = c.topic().tolerance(entry);
  for (int64_t i = 0; i <= last; ++i) {
    const std::string name = mode + ".hidden." + std::to_string(i);
    // The frameworks put the final norm's result in the last place of other models.
    if (c.has(name))
      c.close(tolerance, i == last && !encoder ? result.at("hidden") : layers.row(i), c.array(name),
              name);
  }
}

void run_mode(Case& c, const Json& entry, const std::string& text) {
  const std::optional<Mode> mode = parse_mode(text);
  if (!mode) c.skip("mode " + text + " is not supported yet");
  const Tolerance tolerance = c.topic().tolerance(entry);
  const std::shared_ptr<model::Model> model = c.topic().model(entry.at("model").get<std::string>());

  Batch batch;
  batch.set("ids", c.array("input_ids"));
  // Cases with both paddings name the left one.
  const std::string padding =
      mode->counts_real_tokens && c.has("leftpad.valid") ? "leftpad.valid" : "valid";
  const Tensor valid = c.has(padding) ? c.array(padding).to(DType::u8) : Tensor{};
  if (mode->hides_padding) batch.set("keys", valid);
  if (mode->counts_real_tokens) batch.set("positions", positions_of(valid));

  // In every other mode the frameworks got a table of who sees whom, which replaces windows.
  if (!mode->windows && !model->config().sliding.empty() && !model->config().window_both_sides) {
    const int64_t seq = c.array("input_ids").shape()[1];
    batch.set("mask", Tensor::from<uint8_t>(
                          {1, seq, seq}, std::vector<uint8_t>(static_cast<size_t>(seq * seq), 1)));
  }

  const bool wants_hidden = c.has(text + ".hidden.0");
  Options options(model::forward_schema());
  Json settings = {{"attention", mode->attention}, {"shift", 0}, {"outputs", {"logits"}}};
  if (wants_hidden) settings["outputs"] = {"logits", "hidden", "layers"};
  if (mode->block > 0) settings["block_length"] = mode->block;
  options.set_json(settings);
  const Batch result = model::forward(*model, batch, options);
  c.close(tolerance, result.at("logits"), c.array(text + ".logits"), "logits",
          mode->hides_padding ? valid : Tensor{});
  if (wants_hidden) compare_hidden(c, entry, text, result, model->config().prediction_layer);
}

// The same configuration in the words of the 5.x framework must parse to the same model.
void run_second_config(Case& c, const std::string& folder) {
  const auto parse = [&](const char* name) {
    model::ModelConfig config = model::config_from_text(read_text(join_path(folder, name)), name);
    config.source.clear();
    return model::config_to_json(config).dump();
  };
  c.equal(parse("config_v5.json"), parse("config.json"), "config_v5.json");
}

} // namespace

void run_models(Topic& topic) {
  for (const Json& entry : topic.list("cases")) {
    const std::string name = entry.at("name").get<std::string>();
    if (!entry.contains("modes") || !entry.contains("model")) {
      topic.skip(name, "a case without model and modes is not supported yet");
      continue;
    }
    Json own = entry;
    for (const Json& mode : entry.at("modes")) {
      own["name"] = name + "." + mode.get<std::string>();
      topic.run(own, [&](Case& c) {
        c.set_prefix(entry.value("arrays_of", name));
        run_mode(c, entry, mode.get<std::string>());
      });
    }
    const std::string folder = topic.model_folder(entry.at("model").get<std::string>());
    if (!folder.empty() && file_exists(join_path(folder, "config_v5.json"))) {
      topic.run(name + ".config_v5", [&](Case& c) { run_second_config(c, folder); });
    }
  }
}

} // namespace dllm::parity
