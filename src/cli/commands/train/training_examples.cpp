// A run records a line of examples.jsonl for dllm report at each held-out loss. It has the loss of
// tokens by the corrupted fraction of a row, some predictions, and a sample. The rows and their
// noise are the same every time.

#include "../../objective_facts.h"
#include "training.h"
#include "training_predictions.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kSampleLength = 32;       // tokens
constexpr int64_t kMostTokens = 256;        // of a row that is predicted
constexpr int64_t kMostLogits = 16'000'000; // of one forward pass
constexpr int64_t kStripRows = 3;

Owned<dllm_options> decoding_options(const std::string& kind, const Json& values) {
  auto options = make<dllm_options>([&](dllm_options** out, dllm_error* err) {
    return dllm_options_new(kind.c_str(), out, err);
  });
  const std::string text = values.dump();
  call([&](dllm_error* err) {
    return dllm_options_set_json(options.get(), text.data(), static_cast<int64_t>(text.size()),
                                 err);
  });
  return options;
}

Json token_texts(const Run& run, const std::vector<int32_t>& ids) {
  Json texts = Json::array();
  for (const int32_t id : ids) texts.push_back(decode(run.tokenizer.get(), {id}));
  return texts;
}

// Fails for objectives whose prepared rows are not rows of text with some tokens replaced.
void check_rows(const std::string& objective) {
  const std::string rows = facts_of(objective).rows;
  const char* reason = rows == "two_streams" ? " makes rows of two streams"
                       : rows == "canvas"    ? " has a canvas after each row"
                       : rows == "edited"    ? " edits rows of any length"
                       : rows == "clean"     ? " hides no token"
                                             : nullptr;
  if (reason != nullptr) throw Failure(DLLM_UNIMPLEMENTED, "objective " + objective + reason);
}

// Adds the predictions of n rows; row r has the time (r + 1/2) / n.
void add_predictions(const Context& context, const Run& run, Json* line) {
  check_rows(context.text("objective"));
  const int64_t wanted = context.number("examples");
  const int64_t vocabulary = model_number(run.model.get(), "vocab");
  const int64_t width =
      std::clamp<int64_t>(kMostLogits / std::max<int64_t>(vocabulary, 1), 16, kMostTokens);
  Json share = Json::array(), loss = Json::array(), right = Json::array(), strips = Json::array();
  int64_t next_strip = wanted / (2 * kStripRows);
  call([&](dllm_error* err) { return dllm_loader_seek(run.held_out.get(), 0, err); });
  for (int64_t done = 0; done < wanted;) {
    dllm_batch* next = nullptr;
    if (dllm_loader_next(run.held_out.get(), &next, nullptr) != DLLM_OK) break; // the data ends
    const Owned<dllm_batch> batch(next);
    const int64_t rows = dllm_tensor_dim(ids_array(next).get(), 0);
    for (int64_t row = 0; row < rows && done < wanted; ++row, ++done) {
      const auto t =
          static_cast<float>((static_cast<double>(done) + 0.5) / static_cast<double>(wanted));
      const PredictedRow made = predict_row(context, run, row_of(next, row, width, t, done).get());
      if (!made.counts) continue;
      share.push_back(made.share);
      loss.push_back(made.loss);
      right.push_back(made.right);
      if (done < next_strip || strips.size() >= kStripRows) continue;
      next_strip = done + std::max<int64_t>(wanted / kStripRows, 1);
      strips.push_back({{"texts", token_texts(run, made.ids)},
                        {"guesses", token_texts(run, made.guesses)},
                        {"states", made.states}});
    }
  }
  (*line)["share"] = share;
  (*line)["loss"] = loss;
  (*line)["right"] = right;
  (*line)["strips"] = strips;
}

// Runs `add` and stores the reason of a failure under `key`. Throws when the run was stopped.
template <class F> void attempt_part(const char* key, Json* line, F&& add) {
  try {
    add();
  } catch (const Failure& failure) {
    if (failure.status() == DLLM_CANCELLED || failure.status() == DLLM_DEADLINE_EXCEEDED) throw;
    (*line)[key] = failure.what();
  }
}

} // namespace

// The prompt is the token that ends a text, after which the model begins a new text.
std::string sample_text(const Context& context, const Run& run) {
  Json policy = facts_of(context.text("objective")).sample;
  const std::string name = policy["policy"];
  policy.erase("policy");
  const auto options = decoding_options("decoder:" + name, policy);
  const auto decoder = make<dllm_decoder>([&](dllm_decoder** out, dllm_error* err) {
    return dllm_decoder_new(run.model.get(), options.get(), out, err);
  });
  std::vector<int32_t> prompt(1);
  if (dllm_tokenizer_id(run.tokenizer.get(), "eos", prompt.data(), nullptr) != DLLM_OK)
    prompt.clear();
  const auto slot = decoding_options("slot", {{"seed", 1}, {"gen_length", kSampleLength}});
  call([&](dllm_error* err) {
    return dllm_decoder_add(decoder.get(), prompt.data(), nullptr,
                            static_cast<int64_t>(prompt.size()), slot.get(), nullptr, err);
  });
  for (int64_t active = 1; active > 0;) {
    call([&](dllm_error* err) {
      return dllm_decoder_step(decoder.get(), context.task(), &active, err);
    });
  }
  std::vector<int32_t> ids = canvas_of(decoder.get(), 0).ids;
  ids.erase(ids.begin(),
            ids.begin() + static_cast<std::ptrdiff_t>(std::min(prompt.size(), ids.size())));
  int32_t mask = -1; // a position that the policy leaves to the model, which has not learned it
  if (dllm_tokenizer_id(run.tokenizer.get(), "mask", &mask, nullptr) == DLLM_OK)
    std::erase(ids, mask);
  return decode(run.tokenizer.get(), ids);
}

void record_examples(const Context& context, const Run& run, int64_t step) {
  if (context.number("examples") == 0) return;
  const auto start = std::chrono::steady_clock::now();
  Json line = {{"step", step}, {"objective", context.text("objective")}};
  try {
    attempt_part("no_predictions", &line, [&] { add_predictions(context, run, &line); });
    attempt_part("no_sample", &line, [&] { line["sample"] = sample_text(context, run); });
  } catch (const Failure&) {
    return; // the run was stopped and ends after this step
  }
  if (job_rank() > 0) return; // all ranks predict together, the first writes
  line["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::ofstream file(examples_file(run_folder(context)), std::ios::binary | std::ios::app);
  file << line.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  file.close();
  if (file) return;
  std::fprintf(stderr, "cannot write %s: dllm report will lack step %lld\n",
               examples_file(run_folder(context)).c_str(), static_cast<long long>(step));
}

std::string examples_file(const std::string& out) {
  return out + "/examples.jsonl";
}

void rewind_examples(const std::string& out, int64_t step) {
  const std::string path = examples_file(out);
  std::ifstream old(path, std::ios::binary);
  if (!old) return;
  std::string kept, line;
  while (std::getline(old, line)) {
    const Json object = Json::parse(line, nullptr, false);
    const bool is_step =
        object.is_object() && object.contains("step") && object["step"].is_number_integer();
    if (is_step && object["step"].get<int64_t>() <= step) kept += line + "\n";
  }
  old.close();
  std::ofstream(path + ".partial", std::ios::binary) << kept;
  std::error_code failed;
  std::filesystem::rename(path + ".partial", path, failed);
  if (failed)
    throw Failure(DLLM_PERMISSION_DENIED, "cannot write " + path + ": " + failed.message());
}

} // namespace dllm::cli
