// Gemma 3, text ("gemma3_text"): every sixth layer sees everything, the others slide and turn by
// another theta; an RMSNorm on every head of q and k.

#include "base/error.h"
#include "model/families/gemma.h"
#include "model/rope.h"

#include <nlohmann/json.hpp>

namespace dllm::model {
namespace {

constexpr double kTheta = 1e6, kSlidingTheta = 1e4;

// The 5.x framework keeps one set of numbers per kind of layer.
bool has_both(const Json& object) {
  const auto found = object.find("rope_parameters");
  return found != object.end() && found->is_object() && found->contains("full_attention");
}

void parse_both_ropes(const ConfigReader& reader, ModelConfig& config) {
  Json words = reader.object();
  config.sliding_theta = reader.number("rope_local_base_freq", 1e-3, 1e15, kSlidingTheta);
  if (has_both(words)) {
    const ConfigReader both = reader.child("rope_parameters");
    const ConfigReader sliding = both.child("sliding_attention");
    sliding.require_text("rope_type", {"default"});
    config.sliding_theta = sliding.number("rope_theta", 1e-3, 1e15, kSlidingTheta);
    words["rope_parameters"] = both.child("full_attention").object();
  }
  if (!words.contains("rope_theta")) words["rope_theta"] = kTheta;
  config.rope = parse_rope(ConfigReader(words, reader.file()));
  if (config.rope.type != "default" && config.rope.type != "linear") {
    fail(Code::unimplemented, "{}: rope type {} of gemma3 is not supported yet", reader.file(),
         config.rope.type);
  }
}

void parse(const ConfigReader& reader, ModelConfig& config) {
  reader.require_flag("use_bidirectional_attention", false);
  Json words = reader.object();
  words.erase("rope_parameters"); // read below, by kind of layer
  const char* pattern =
      reader.has("sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern";
  parse_gemma_keys(ConfigReader(words, reader.file()), config,
                   reader.integer(pattern, 1, kMaxLayers, 6));
  parse_both_ropes(reader, config);
  config.qk_norm = true;
  config.attention_softcap = parse_softcap(reader, "attn_logit_softcapping", 0);
  config.logit_softcap = parse_softcap(reader, "final_logit_softcapping", 0);
}

void print(const ModelConfig& config, Json& object) {
  if (!object.contains("architectures")) object["architectures"] = {"Gemma3ForCausalLM"};
  const bool both = has_both(object);
  if (both) object["rope_parameters"] = Json::object(); // print_rope fills it
  print_gemma_keys(config, object);
  if (both) {
    object["rope_parameters"] = {
        {"full_attention", object["rope_parameters"]},
        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", config.sliding_theta}}}};
  } else {
    object["rope_local_base_freq"] = config.sliding_theta;
  }
}

} // namespace

const Family kGemma3 = {"gemma3",     {"gemma3_text"},  {}, parse, print,
                        gemma_params};

} // namespace dllm::model
