#include "decoding.h"

#include "../../objective_facts.h"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string word_of(const Context& context, const std::string& kind, const std::string& key) {
  const Json value = Json::parse(context.option(kind, key));
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// The kinds of models that policies read. A policy of no objective fills masks.
struct PolicyKind {
  std::string rows, models;
};

// Returns "" for policies that read causal models and fill masks too.
PolicyKind kind_of_policy(const std::string& policy) {
  if (policy == "self_speculation" || policy == "nemotron") return {};
  std::string rows = "masked";
  for (const std::string& objective : text_objectives()) {
    const ObjectiveFacts facts = facts_of(objective);
    if (facts.policy == policy) rows = facts.rows == "two_streams" ? "masked" : facts.rows;
  }
  if (rows == "clean") return {rows, "causal models"};
  if (rows == "masked") return {rows, "models that fill masks"};
  return {rows, "models of objective " + policy};
}

} // namespace

std::string misfit_line(const Context& context, const Json& about) {
  const auto policy = about.at("policy").get<std::string>(),
             own = about.at("own_policy").get<std::string>();
  const PolicyKind typed = kind_of_policy(policy), fitting = kind_of_policy(own);
  if (typed.rows.empty() || fitting.rows.empty() || typed.rows == fitting.rows) return "";
  return "warning: --policy " + policy + " is for " + typed.models + ", and " +
         context.text("model") + " is one of the " + fitting.models + ": --policy " + own +
         " decodes it";
}

void refuse_likely_tokens(const Context& context, const std::string& way_out) {
  for (const char* kind : {"decoder", "slot"}) refuse_typed(context, kind, "top_logprobs", way_out);
}

void check_decoding(const Context& context, bool holes) {
  refuse_typed(context, "decoder", "on_change", "the weights do not change in this command");
  if (!context.has("trace")) {
    refuse_typed(context, "decoder", "trace", "dllm generate --trace FILE writes the trace");
    refuse_typed(context, "decoder", "trace_bytes", "it needs --trace FILE");
  }
  if (!context.has("samples"))
    refuse_typed(context, "decoder", "slots", "this command has one request at a time");
  if (holes) {
    for (const char* kind : {"decoder", "slot"})
      refuse_typed(context, kind, "gen_length", "<mask:N> sets the open positions");
  } else {
    refuse_typed(context, "slot", "prompt_length", "it is for canvases with holes (dllm infill)");
  }
  const bool own_length = context.typed("slot", "gen_length");
  if (context.typed("length") && own_length &&
      context.text("length") != word_of(context, "slot", "gen_length")) {
    throw UsageFailure("--length and --gen-length are the same setting but have two values");
  }
  if (context.typed("length") || own_length)
    note_typed(context, "decoder", "gen_length", "--length sets the open positions");
  if (std::stod(word_of(context, "decoder", "guidance")) == 0) {
    note_typed(context, "decoder", "guidance_keep", "--guidance is 0");
  }
}

std::string policy_line(const Context& context, const Session& session, const Json& about) {
  const auto policy = about.at("policy").get<std::string>();
  const std::string& model = context.text("model");
  if (policy == "autoregressive") {
    return model +
           " is a causal model: --policy autoregressive decodes it, one token after another";
  }
  if (policy == "low_confidence" || !session.about.contains("objective")) return "";
  return model + " was trained with " + session.about["objective"].get<std::string>() +
         ": --policy " + policy + " decodes it";
}

std::string policy_sentence() {
  std::string sentence = "which open positions are decided when:";
  for (int64_t i = 0; const char* name = dllm_registry_name("policy", i); ++i)
    sentence += std::string(" ") + name;
  return sentence + "; not given: the policy that the model was trained for, else";
}

Progress progress_of(const dllm_decoder* decoder, int64_t slot) {
  const auto metric = [&](const char* key) {
    return static_cast<int64_t>(decoder_metric(decoder, slot, key));
  };
  return {metric("steps"), metric("nfe"), metric("open")};
}

Session::Session(Context& context)
    : engine(open_engine(context)), model(open_model(context, engine.get(), context.text("model"))),
      tokenizer(open_prompt_tokenizer(context, context.text("model"))),
      about(Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
        return dllm_model_describe(model.get(), out, err);
      }))) {}

} // namespace dllm::cli
