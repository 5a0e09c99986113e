#include "generation_defaults.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

// A key of decoder options, its names in files, and the argument that also sets it.
struct Taken {
  const char* key;
  std::initializer_list<const char*> names;
  const char* argument = nullptr;
};
const Taken kTaken[] = {
    {"temperature", {"temperature"}},
    {"top_p", {"top_p"}},
    {"top_k", {"top_k"}},
    {"steps", {"steps", "diffusion_steps", "num_diffusion_steps", "num_steps"}},
    {"denoising_steps", {"denoising_steps", "max_denoising_steps"}},
    {"block_length", {"block_length", "block_size", "bd_size"}},
    {"gen_length", {"gen_length"}, "length"},
    {"threshold", {"threshold"}},
    {"alg", {"alg"}},
    {"alg_temp", {"alg_temp"}},
};

// Settings of other programs that change the text and that no policy supports. At `neutral` a
// setting changes nothing.
struct Lacking {
  const char* name;
  double neutral;
};
constexpr Lacking kLacking[] = {{"repetition_penalty", 1},
                                {"presence_penalty", 0},
                                {"frequency_penalty", 0},
                                {"no_repeat_ngram_size", 0},
                                {"min_p", 0},
                                {"typical_p", 1},
                                {"num_beams", 1},
                                {"cfg_scale", 0}};

class Defaults {
public:
  Defaults(Context& context, const Json& file)
      : context_(context), file_(file),
        policy_(Json::parse(context.option("decoder", "policy")).get<std::string>()) {}

  void take_all() {
    const bool greedy = file_.contains("do_sample") && file_["do_sample"] == false;
    for (const Taken& taken : kTaken) {
      const std::string_view key = taken.key;
      const bool draws = key == "temperature" || key == "top_p" || key == "top_k";
      const auto name = std::find_if(taken.names.begin(), taken.names.end(),
                                     [&](const char* n) { return has_value(n); });
      if (key == "temperature" && name == taken.names.end() && file_.contains("do_sample") &&
          file_["do_sample"] == true)
        take(taken, "do_sample", 1);
      if (name == taken.names.end()) continue;
      if (draws && greedy)
        leave_out(*name, "do_sample is false");
      else
        take(taken, *name, file_[*name]);
    }
    for (const Lacking& lacking : kLacking) {
      const auto found = file_.find(lacking.name);
      if (found != file_.end() && found->is_number() && *found != lacking.neutral)
        leave_out(lacking.name, "dllm has no such option");
    }
    if (has_value("max_new_tokens") && !context_.typed("length"))
      leave_out("max_new_tokens", "--length sets the open positions");
  }

  std::string line(const std::vector<int32_t>& ends) const {
    std::string text = taken_;
    if (file_.contains("eos_token_id") && !ends.empty()) {
      text += text.empty() ? "end tokens" : "; end tokens";
      for (const int32_t id : ends) text += " " + std::to_string(id);
    }
    if (!left_out_.empty()) text += (text.empty() ? "left out: " : "; left out: ") + left_out_;
    return text;
  }

private:
  bool has_value(const char* name) const { return file_.contains(name) && !file_[name].is_null(); }

  bool typed(const Taken& taken) const {
    return context_.typed("decoder", taken.key) || context_.typed("slot", taken.key) ||
           (taken.argument != nullptr && context_.typed(taken.argument));
  }

  // Some policies have no number of steps, or no blocks.
  bool ignores(std::string_view key) const {
    if (key == "steps") return policy_ == "autoregressive" || policy_ == "multi_block";
    return key == "block_length" && policy_ == "autoregressive";
  }

  void take(const Taken& taken, const char* name, const Json& value) {
    if (typed(taken)) return;
    if (ignores(taken.key)) return leave_out(name, "policy " + policy_ + " does not use it");
    const std::string json = Json{{taken.key, value}}.dump();
    try {
      const std::string before = context_.option("decoder", taken.key);
      call([&](dllm_error* err) {
        return dllm_options_set_json(context_.options("decoder"), json.data(),
                                     static_cast<int64_t>(json.size()), err);
      });
      if (context_.option("decoder", taken.key) == before) return;
      taken_ += (taken_.empty() ? "" : ", ") + std::string(taken.key) + " " + shown(value);
    } catch (const Json::exception&) {
      leave_out(name, "policy " + policy_ + " has no such option");
    } catch (const Failure& failure) {
      leave_out(name, failure.what());
    }
  }

  void leave_out(const std::string& name, const std::string& why) {
    left_out_ += (left_out_.empty() ? "" : ", ") + name;
    if (file_.contains(name)) left_out_ += " " + shown(file_[name]);
    left_out_ += " (" + why + ")";
  }

  static std::string shown(const Json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  }

  Context& context_;
  const Json& file_;
  std::string policy_, taken_, left_out_;
};

} // namespace

void take_generation_defaults(Context& context, const Session& session) {
  const Json file = session.about.value("generation", Json::object());
  Defaults defaults(context, file);
  defaults.take_all();
  const std::string line = defaults.line(session.about.value("end_tokens", std::vector<int32_t>()));
  if (line.empty() || context.flag("quiet") || context.json()) return;
  std::fprintf(stderr, "from generation_config.json: %s\n", line.c_str());
}

} // namespace dllm::cli
