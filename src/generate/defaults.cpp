#include "generate/defaults.h"

#include "base/error.h"
#include "base/named_table.h"
#include "decode/request/policy.h"
#include "generate/request_options.h"
#include "graph/filters/filter.h"
#include "model/config.h"
#include "noise/objective.h"
#include "noise/objective_facts.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::generate {
namespace {

constexpr const char* kUsual = "low_confidence"; // the default of a decoder
constexpr const char* kOrdered = "autoregressive";

// An option of a decoder, and the names that files have for it.
struct Taken {
  std::string key;
  std::vector<std::string> names;
};

bool is_filter(std::string_view key) {
  return find_named(graph::draw_filters(), key, &graph::DrawFilter::name) != nullptr;
}

std::vector<Taken> all_taken() {
  std::vector<Taken> all = {
      {"temperature", {"temperature"}},
      {"steps", {"steps", "diffusion_steps", "num_diffusion_steps", "num_steps"}},
      {"denoising_steps", {"denoising_steps", "max_denoising_steps"}},
      {"block_length", {"block_length", "block_size", "bd_size"}},
      {"gen_length", {"gen_length"}},
      {"threshold", {"threshold"}},
      {"alg", {"alg"}},
      {"alg_temp", {"alg_temp"}},
  };
  std::vector<Taken> filters;
  for (const graph::DrawFilter& filter : graph::draw_filters())
    filters.push_back({filter.name(), {filter.name()}});
  all.insert(all.begin() + 1, filters.begin(), filters.end());
  return all;
}

// Settings of other programs that change the text and that no policy supports. At `neutral` a
// setting changes nothing.
struct Lacking {
  const char* name;
  double neutral;
};
constexpr Lacking kLacking[] = {{"repetition_penalty", 1}, {"presence_penalty", 0},
                                {"frequency_penalty", 0},  {"no_repeat_ngram_size", 0},
                                {"typical_p", 1},          {"num_beams", 1},
                                {"cfg_scale", 0}};

class Reading {
public:
  Reading(const Json& file, const std::string& policy, const Options& request)
      : file_(file), policy_(policy),
        request_(request), made_{Options(decode::decoder_schema(policy))} {}

  FileSettings take_all() {
    const bool greedy = file_.contains("do_sample") && file_["do_sample"] == false;
    for (const Taken& taken : all_taken()) {
      const std::string& key = taken.key;
      const bool draws = key == "temperature" || is_filter(key);
      const auto name = std::find_if(taken.names.begin(), taken.names.end(),
                                     [&](const std::string& n) { return has_value(n); });
      if (key == "temperature" && name == taken.names.end() && file_.contains("do_sample") &&
          file_["do_sample"] == true)
        take(taken.key, "do_sample", 1);
      if (name == taken.names.end()) continue;
      if (draws && greedy)
        leave_out(*name, "do_sample is false");
      else
        take(taken.key, *name, file_[*name]);
    }
    for (const Lacking& lacking : kLacking) {
      const auto found = file_.find(lacking.name);
      if (found != file_.end() && found->is_number() && *found != lacking.neutral &&
          !is_filter(lacking.name))
        leave_out(lacking.name, "dllm has no such option");
    }
    if (has_value("max_new_tokens") && !request_.is_set("length"))
      leave_out("max_new_tokens", "option length sets the open positions");
    return std::move(made_);
  }

private:
  bool has_value(const std::string& name) const {
    return file_.contains(name) && !file_[name].is_null();
  }

  bool is_asked(const std::string& key) const {
    const std::string own = key == "gen_length" ? "length" : key;
    return std::ranges::any_of(request_.schema().specs(), [&](const OptionSpec& spec) {
      return spec.key == own && request_.is_set(own);
    });
  }

  // Some policies have no number of steps, or no blocks.
  bool ignores(std::string_view key) const {
    if (key == "steps") return policy_ == kOrdered || policy_ == "multi_block";
    return key == "block_length" && policy_ == kOrdered;
  }

  void take(const std::string& key, const std::string& name, const Json& value) {
    if (is_asked(key)) return;
    if (ignores(key)) return leave_out(name, "policy " + policy_ + " does not use it");
    try {
      const Json before = made_.options.to_json();
      made_.options.set_json({{key, value}});
      if (made_.options.to_json() != before) made_.taken.push_back(key);
    } catch (const Error& error) {
      leave_out(name, error.code() == Code::not_found ? "policy " + policy_ + " has no such option"
                                                      : error.text());
    }
  }

  void leave_out(const std::string& name, const std::string& why) {
    std::string text = name;
    if (file_.contains(name)) text += " " + shown(file_[name]);
    made_.left_out.push_back(text + " (" + why + ")");
  }

  static std::string shown(const Json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  }

  const Json& file_;
  const std::string& policy_;
  const Options& request_;
  FileSettings made_;
};

// Returns the facts of an objective. An objective that the library lacks has the facts of masked
// diffusion.
noise::ObjectiveFacts facts_of(const std::string& objective) {
  const std::vector<std::string> known = noise::objective_names();
  return std::ranges::find(known, objective) == known.end() ? noise::ObjectiveFacts()
                                                            : noise::objective_facts(objective);
}

} // namespace

PolicyChoice choose_policy(const model::Model& model) {
  const std::string objective = model.config_now().objective;
  const std::string made_for = facts_of(objective).policy;
  if (!made_for.empty() && made_for != kOrdered)
    return {made_for, fmt::format("the model was trained with {}", objective)};
  const bool is_causal = model.config_now().attention == model::AttentionKind::causal;
  if (is_causal && (objective.empty() || made_for == kOrdered))
    return {kOrdered, "the model is causal"};
  return {kUsual, "the usual policy of masked diffusion"};
}

FileSettings read_generation_config(const Json& file, const std::string& policy,
                                    const Options& request) {
  return Reading(file, policy, request).take_all();
}

} // namespace dllm::generate
