#include "eval.h"

#include "../objective_facts.h"

#include <algorithm>
#include <fstream>

namespace dllm::cli {
namespace {

std::vector<double> numbers_of(const dllm_batch* batch, const char* name) {
  const auto array = make<dllm_tensor>(
      [&](dllm_tensor** out, dllm_error* err) { return dllm_batch_array(batch, name, out, err); });
  std::vector<double> numbers(static_cast<size_t>(dllm_tensor_dim(array.get(), 0)));
  call([&](dllm_error* err) {
    return dllm_tensor_read(array.get(), DLLM_F64, numbers.data(),
                            static_cast<int64_t>(numbers.size() * sizeof(double)), err);
  });
  return numbers;
}

class BoundScorer final : public AnswerScorer {
public:
  BoundScorer(const Context& context, const ScoredModel& scored, int64_t draws)
      : context_(context), scored_(scored), draws_(scored.noiseless ? 1 : draws) {}

  // Equal rows of a batch draw different noise, so one batch has all draws.
  Mean score(const std::vector<int32_t>& prompt, const std::vector<int32_t>& answer,
             int64_t seed) override {
    if (answer.empty()) return {};
    std::vector<int32_t> ids;
    std::vector<uint8_t> keep;
    for (int64_t i = 0; i < draws_; ++i) {
      ids.insert(ids.end(), prompt.begin(), prompt.end());
      ids.insert(ids.end(), answer.begin(), answer.end());
      keep.insert(keep.end(), prompt.size(), 1); // given
      keep.insert(keep.end(), answer.size(), 0);
    }
    const int64_t dims[2] = {draws_, static_cast<int64_t>(prompt.size() + answer.size())};
    const auto batch = make<dllm_batch>(
        [](dllm_batch** out, dllm_error* err) { return dllm_batch_new(out, err); });
    call([&](dllm_error* err) {
      return dllm_batch_set(batch.get(), "ids", DLLM_I32, dims, 2, ids.data(), err);
    });
    call([&](dllm_error* err) {
      return dllm_batch_set(batch.get(), "keep", DLLM_U8, dims, 2, keep.data(), err);
    });
    Mean mean = mean_of(row_sums(context_, scored_, batch.get(), seed).sums);
    mean.value = -mean.value;
    return mean;
  }

private:
  const Context& context_;
  const ScoredModel& scored_;
  int64_t draws_;
};

// Returns the objective in the checkpoint of a run. Other models know its name at most.
EvalJson recorded_objective(const Context& context, const std::string& path,
                            const EvalJson& about) {
  std::string folder = latest_of_run(context, path);
  if (folder.empty()) folder = path;
  std::ifstream file(folder + "/trainer.json");
  if (!file) {
    EvalJson made = EvalJson::object();
    made["name"] = about.value("objective", "");
    return made;
  }
  const EvalJson trainer = EvalJson::parse(file, nullptr, false);
  if (!trainer.is_object())
    throw Failure(DLLM_DATA_LOSS, folder + "/trainer.json is not a JSON object");
  const EvalJson objective = trainer.value("objective", EvalJson());
  return objective.is_object() ? objective : EvalJson::object();
}

// These options of an objective lay out the rows. Options for weights and times are not used,
// because the bound sets them itself.
constexpr const char* kLayout[] = {"attention", "shift", "block_length", "mask_id"};

void set_json(dllm_options* options, const EvalJson& values) {
  const std::string json = values.dump();
  call([&](dllm_error* err) {
    return dllm_options_set_json(options, json.data(), static_cast<int64_t>(json.size()), err);
  });
}

// attention, block_length: what the user chose; "" and 0: nothing.
EvalJson layout_of(const EvalJson& recorded, const std::string& attention, int64_t block_length) {
  EvalJson layout = EvalJson::object();
  for (const char* key : kLayout) {
    if (recorded.contains(key)) layout[key] = recorded[key];
  }
  if (!attention.empty()) layout["attention"] = attention;
  if (block_length > 0) layout["block_length"] = block_length;
  return layout;
}

// Returns the name of the recorded noise schedule; "" for the default one of the objective.
std::string schedule_of(const EvalJson& recorded) {
  const EvalJson noise = recorded.value("schedule", EvalJson());
  return noise.is_object() ? noise.value("name", "") : "";
}

Owned<dllm_objective> new_objective(const std::string& name, const EvalJson& layout,
                                    const std::string& schedule_name) {
  const auto options = make<dllm_options>([&](dllm_options** out, dllm_error* err) {
    return dllm_options_new(("objective:" + name).c_str(), out, err);
  });
  set_json(options.get(), layout);
  Owned<dllm_schedule> schedule;
  if (!schedule_name.empty()) {
    schedule = make<dllm_schedule>([&](dllm_schedule** out, dllm_error* err) {
      return dllm_schedule_new(schedule_name.c_str(), nullptr, out, err);
    });
  }
  return make<dllm_objective>([&](dllm_objective** out, dllm_error* err) {
    return dllm_objective_new(name.c_str(), schedule.get(), options.get(), out, err);
  });
}

std::string objective_for(const Context& context, const EvalJson& about, const EvalJson& recorded) {
  const std::string asked = context.text("objective");
  if (asked != "auto") return asked;
  const std::string trained = recorded.value("name", "");
  // A loss that does not bound the likelihood counts or weighs tokens differently; its model is
  // scored as masked diffusion.
  if (facts_of(trained).likelihood) return trained;
  if (facts_of(trained).is_of_edits()) {
    throw Failure(DLLM_FAILED_PRECONDITION,
                  context.text("model") + " was trained with " + trained +
                      ", which has no bound of the likelihood, and fills no masks",
                  "--objective mdlm scores it as masked diffusion all the same");
  }
  return about.value("attention", "") == "causal" ? "ar" : "mdlm";
}

// Returns the shift of the loss of an objective for a model.
int64_t shift_of(const std::string& name, const EvalJson& recorded, const EvalJson& about) {
  const bool is_own = recorded.value("name", "") == name;
  const int64_t chosen = is_own ? recorded.value("shift", int64_t{-1}) : -1,
                usual = facts_of(name).shift;
  if (chosen >= 0) return chosen;
  return usual >= 0 ? usual : about.value("shift", int64_t{0});
}

} // namespace

ScoredModel::ScoredModel(Context& context)
    : engine(open_engine(context)), model(open_model(context, engine.get(), context.text("model"))),
      tokenizer(open_prompt_tokenizer(context, context.text("model"))) {
  const EvalJson about = EvalJson::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_model_describe(model.get(), out, err);
  }));
  const EvalJson recorded = recorded_objective(context, context.text("model"), about);
  objective_name = objective_for(context, about, recorded);
  noiseless = facts_of(objective_name).is_noiseless();
  const bool chosen = context.typed("model", "attention");
  const bool is_own = recorded.value("name", "") == objective_name;
  const EvalJson layout = layout_of(
      is_own ? recorded : EvalJson::object(),
      chosen ? EvalJson::parse(context.option("model", "attention")).get<std::string>() : "",
      context.typed("decoder", "block_length")
          ? std::stoll(context.option("decoder", "block_length"))
          : 0);
  const std::string schedule = is_own ? schedule_of(recorded) : "";
  objective = new_objective(objective_name, layout, schedule);
  settings["objective"] = objective_name;
  if (layout.value("block_length", int64_t{0}) > 0)
    settings["block_length"] = layout["block_length"];
  if (!noiseless && !schedule.empty() && schedule != "linear") settings["schedule"] = schedule;
  is_shifted = shift_of(objective_name, recorded, about) == 1;
}

RowSums row_sums(const Context& context, const ScoredModel& scored, const dllm_batch* batch,
                 int64_t seed) {
  const auto losses = make<dllm_batch>([&](dllm_batch** out, dllm_error* err) {
    return dllm_objective_row_losses(scored.objective.get(), scored.model.get(), batch, seed,
                                     context.task(), out, err);
  });
  return {numbers_of(losses.get(), "sums"), numbers_of(losses.get(), "counts")};
}

std::unique_ptr<AnswerScorer> bound_scorer(const Context& context, const ScoredModel& scored,
                                           int64_t draws) {
  return std::make_unique<BoundScorer>(context, scored, draws);
}

} // namespace dllm::cli
