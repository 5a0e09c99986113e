// What a run records for dllm report, a line of examples.jsonl at each held-out loss: the loss of tokens by the share of a
// row that is corrupted, some of these predictions, and a sample. The rows and their noise are the same every time.

#include "training.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kSampleLength = 32;       // tokens
constexpr int64_t kMostTokens = 256;        // of a row that is predicted
constexpr int64_t kMostLogits = 16'000'000; // of one forward pass
constexpr int64_t kNoiseSeed = 1;
constexpr int64_t kStripRows = 3;

Owned<dllm_options> options_of(const std::string& kind, const Json& values) {
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

// ---- a batch of one row ----

size_t size_of(int32_t dtype) {
  switch (dtype) {
  case DLLM_I64: return 8;
  case DLLM_I32:
  case DLLM_F32: return 4;
  case DLLM_U8: return 1;
  default: return 0; // no array of token rows
  }
}

Owned<dllm_tensor> tensor_of(const dllm_batch* batch, const char* name) {
  return make<dllm_tensor>(
      [&](dllm_tensor** out, dllm_error* err) { return dllm_batch_array(batch, name, out, err); });
}

void put(dllm_batch* batch, const char* name, int32_t dtype, const std::vector<int64_t>& dims,
         const void* data) {
  call([&](dllm_error* err) {
    return dllm_batch_set(batch, name, dtype, dims.data(), static_cast<int64_t>(dims.size()), data,
                          err);
  });
}

// The first `width` tokens of one row, to be corrupted at time t; its noise is that of row `number`.
Owned<dllm_batch> row_of(const dllm_batch* batch, int64_t row, int64_t width, float t,
                         int64_t number) {
  auto one =
      make<dllm_batch>([](dllm_batch** out, dllm_error* err) { return dllm_batch_new(out, err); });
  const int64_t rows = dllm_tensor_dim(tensor_of(batch, "ids").get(), 0);
  for (int64_t i = 0; i < dllm_batch_count(batch); ++i) {
    const char* name = dllm_batch_name(batch, i);
    const Owned<dllm_tensor> array = tensor_of(batch, name);
    const size_t size = size_of(dllm_tensor_dtype(array.get()));
    const bool of_tokens =
        dllm_tensor_rank(array.get()) == 2 && dllm_tensor_dim(array.get(), 0) == rows;
    if (!of_tokens || size == 0) continue;
    const auto* data = static_cast<const unsigned char*>(dllm_tensor_data(array.get()));
    const auto columns = dllm_tensor_dim(array.get(), 1);
    put(one.get(), name, dllm_tensor_dtype(array.get()), {1, std::min(width, columns)},
        data + static_cast<size_t>(row * columns) * size);
  }
  const int64_t place[2] = {number, number + 1};
  put(one.get(), "rows", DLLM_I64, {2}, place);
  put(one.get(), "t", DLLM_F32, {1}, &t);
  return one;
}

std::vector<int32_t> numbers_of(const dllm_batch* batch, const char* name, bool required = true) {
  bool there = required;
  for (int64_t i = 0; i < dllm_batch_count(batch); ++i)
    there = there || std::strcmp(dllm_batch_name(batch, i), name) == 0;
  if (!there) return {};
  const Owned<dllm_tensor> array = tensor_of(batch, name);
  std::vector<int32_t> numbers(static_cast<size_t>(dllm_tensor_dim(array.get(), 1)));
  call([&](dllm_error* err) {
    return dllm_tensor_read(array.get(), DLLM_I32, numbers.data(),
                            static_cast<int64_t>(numbers.size() * sizeof(int32_t)), err);
  });
  return numbers;
}

// ---- predictions ----

struct Prediction {
  int32_t id;
  double loss; // of the target, in nats
};

Prediction prediction_of(const float* logits, int64_t vocabulary, int32_t target) {
  const float* most = std::max_element(logits, logits + vocabulary);
  double sum = 0;
  for (int64_t i = 0; i < vocabulary; ++i) sum += std::exp(logits[i] - *most);
  return {static_cast<int32_t>(most - logits),
          std::log(sum) + static_cast<double>(*most) - static_cast<double>(logits[target])};
}

// Tokens of one row: 0 given, 1 wrong, 2 right. Losses are of the corrupted ones.
struct PredictedRow {
  std::vector<int32_t> ids, guesses, states;
  double loss = 0, share = 0, right = 0; // mean; corrupted of those that may be; right of these
  bool counts = false;                   // one token is corrupted
};

PredictedRow predict(const Context& context, const Run& run, const dllm_batch* row) {
  const auto prepared = make<dllm_batch>([&](dllm_batch** out, dllm_error* err) {
    return dllm_objective_prepare(run.objective.get(), run.model.get(), row, kNoiseSeed, 0, out,
                                  err);
  });
  PredictedRow made;
  made.ids = numbers_of(row, "ids");
  const std::vector<int32_t> noised = numbers_of(prepared.get(), "ids"),
                             targets = numbers_of(prepared.get(), "targets"),
                             keep = numbers_of(row, "keep", false);
  if (noised.size() != made.ids.size()) {
    throw Failure(DLLM_UNIMPLEMENTED,
                  "objective " + context.text("objective") + " makes rows of two streams");
  }
  const auto result = make<dllm_batch>([&](dllm_batch** out, dllm_error* err) {
    return dllm_model_forward(run.model.get(), prepared.get(), nullptr, context.task(), out, err);
  });
  const Owned<dllm_tensor> logits = tensor_of(result.get(), "logits");
  const auto* values = static_cast<const float*>(dllm_tensor_data(logits.get()));
  const int64_t vocabulary = dllm_tensor_dim(logits.get(), 2);
  made.guesses = made.ids;
  made.states.assign(made.ids.size(), 0);
  int64_t open = 0, corrupted = 0, right = 0;
  for (size_t i = 0; i < made.ids.size(); ++i) {
    open += keep.empty() || keep[i] == 0 ? 1 : 0;
    if (targets[i] < 0 || noised[i] == made.ids[i]) continue;
    const Prediction one =
        prediction_of(values + static_cast<int64_t>(i) * vocabulary, vocabulary, targets[i]);
    ++corrupted;
    made.loss += one.loss;
    made.guesses[i] = one.id;
    made.states[i] = one.id == targets[i] ? 2 : 1;
    right += made.states[i] - 1;
  }
  made.counts = corrupted > 0;
  made.loss /= static_cast<double>(std::max<int64_t>(corrupted, 1));
  made.right = static_cast<double>(right) / static_cast<double>(std::max<int64_t>(corrupted, 1));
  made.share = static_cast<double>(corrupted) / static_cast<double>(std::max<int64_t>(open, 1));
  return made;
}

Json texts_of(const Run& run, const std::vector<int32_t>& ids) {
  Json texts = Json::array();
  for (const int32_t id : ids) texts.push_back(decode(run.tokenizer.get(), {id}));
  return texts;
}

// Rows r of n at the times (r + 1/2) / n.
void add_predictions(const Context& context, const Run& run, Json* line) {
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
    const int64_t rows = dllm_tensor_dim(tensor_of(next, "ids").get(), 0);
    for (int64_t row = 0; row < rows && done < wanted; ++row, ++done) {
      const auto t =
          static_cast<float>((static_cast<double>(done) + 0.5) / static_cast<double>(wanted));
      const PredictedRow made = predict(context, run, row_of(next, row, width, t, done).get());
      if (!made.counts) continue;
      share.push_back(made.share);
      loss.push_back(made.loss);
      right.push_back(made.right);
      if (done < next_strip || strips.size() >= kStripRows) continue;
      next_strip = done + std::max<int64_t>(wanted / kStripRows, 1);
      strips.push_back({{"texts", texts_of(run, made.ids)},
                        {"guesses", texts_of(run, made.guesses)},
                        {"states", made.states}});
    }
  }
  (*line)["share"] = share;
  (*line)["loss"] = loss;
  (*line)["right"] = right;
  (*line)["strips"] = strips;
}

// The policy for a model of this objective, and its options.
Json policy_of(const std::string& objective) {
  if (objective == "ar") return {{"policy", "autoregressive"}, {"temperature", 0.8}};
  if (objective == "bd3lm" || objective == "dream" || objective == "editflow" ||
      objective == "uniform")
    return {{"policy", objective}};
  if (objective == "dmax") return {{"policy", "spd"}};
  return {{"policy", "random"}, {"steps", 16}, {"temperature", 0.8}};
}

// Runs `add`; where it fails, the line has the reason under `key`. Does not hide that the run was stopped.
template <class F> void attempt_part(const char* key, Json* line, F&& add) {
  try {
    add();
  } catch (const Failure& failure) {
    if (failure.status() == DLLM_CANCELLED || failure.status() == DLLM_DEADLINE_EXCEEDED) throw;
    (*line)[key] = failure.what();
  }
}

} // namespace

// Behind the token that ends a text: the model begins a new one.
std::string sample_text(const Context& context, const Run& run) {
  Json policy = policy_of(context.text("objective"));
  const std::string name = policy["policy"];
  policy.erase("policy");
  const auto options = options_of("decoder:" + name, policy);
  const auto decoder = make<dllm_decoder>([&](dllm_decoder** out, dllm_error* err) {
    return dllm_decoder_new(run.model.get(), options.get(), out, err);
  });
  std::vector<int32_t> prompt(1);
  if (dllm_tokenizer_id(run.tokenizer.get(), "eos", prompt.data(), nullptr) != DLLM_OK)
    prompt.clear();
  const auto slot = options_of("slot", {{"seed", 1}, {"gen_length", kSampleLength}});
  call([&](dllm_error* err) {
    return dllm_decoder_add(decoder.get(), prompt.data(), nullptr,
                            static_cast<int64_t>(prompt.size()), slot.get(), nullptr, err);
  });
  for (int64_t active = 1; active > 0;) {
    call([&](dllm_error* err) {
      return dllm_decoder_step(decoder.get(), context.task(), &active, err);
    });
  }
  const std::vector<int32_t> ids = canvas_of(decoder.get(), 0).ids;
  const auto begin = static_cast<std::ptrdiff_t>(std::min(prompt.size(), ids.size()));
  return decode(run.tokenizer.get(), {ids.begin() + begin, ids.end()});
}

void record_examples(const Context& context, const Run& run, int64_t step) {
  if (context.number("examples") == 0) return;
  const auto start = std::chrono::steady_clock::now();
  Json line = {{"step", step}, {"objective", context.text("objective")}};
  try {
    attempt_part("no_predictions", &line, [&] { add_predictions(context, run, &line); });
    attempt_part("no_sample", &line, [&] { line["sample"] = sample_text(context, run); });
  } catch (const Failure&) {
    return; // the run was stopped: it ends behind this step
  }
  line["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::ofstream file(examples_file(context.text("out")), std::ios::binary | std::ios::app);
  file << line.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  file.close();
  if (!file)
    throw Failure(DLLM_RESOURCE_EXHAUSTED, "cannot write " + examples_file(context.text("out")),
                  "make room, or leave examples out: --examples 0");
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
