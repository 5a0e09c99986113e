#include "bench_work.h"

#include "../../options/option_list.h"

#include <algorithm>
#include <chrono>
#include <memory>

namespace dllm::cli {
namespace {

using WorkClock = std::chrono::steady_clock;
using WorkJson = nlohmann::ordered_json;

constexpr int64_t kUsualLength = 256; // positions that the defaults need at most

// The sizes of each work and their defaults, which are smaller for a model of fewer positions.
struct SizeOption {
  const char* name;
  const char* work;
  int64_t fallback;
};
constexpr SizeOption kSizes[] = {{"rows", "step", 256},  {"rows", "prefill", 256},
                                 {"rows", "decode", 32}, {"context", "decode", 224},
                                 {"batch", "train", 4},  {"length", "train", 64}};

} // namespace

int64_t size_of_work(const Context& context, const BenchSubject& subject, const std::string& name,
                     const std::string& what) {
  if (context.has(name)) return context.number(name);
  const int64_t longest = subject.about.value("max_length", kUsualLength);
  for (const SizeOption& size : kSizes) {
    if (name != size.name || what != size.work) continue;
    if (name == "batch" || longest >= kUsualLength) return size.fallback;
    return std::max<int64_t>(1, size.fallback * longest / kUsualLength);
  }
  return 0;
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = WorkClock::now();
  work();
  return std::chrono::duration<double>(WorkClock::now() - begin).count();
}

std::vector<int32_t> made_up_ids(const BenchSubject& subject, int64_t count, int64_t turn) {
  const int64_t vocab = std::max<int64_t>(2, subject.about.at("vocab").get<int64_t>() - 1);
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>((static_cast<int64_t>(i) * 7919 + turn * 104729 + 13) % vocab);
  return ids;
}

Owned<dllm_batch> batch_of(const std::vector<int32_t>& ids, int64_t rows) {
  auto batch =
      make<dllm_batch>([](dllm_batch** out, dllm_error* err) { return dllm_batch_new(out, err); });
  const int64_t dims[] = {rows, static_cast<int64_t>(ids.size()) / rows};
  call([&](dllm_error* err) {
    return dllm_batch_set(batch.get(), "ids", DLLM_I32, dims, 2, ids.data(), err);
  });
  return batch;
}

Owned<dllm_options> options_with(const char* kind, const WorkJson& values) {
  auto options = make<dllm_options>(
      [&](dllm_options** out, dllm_error* err) { return dllm_options_new(kind, out, err); });
  const std::string json = values.dump();
  call([&](dllm_error* err) {
    return dllm_options_set_json(options.get(), json.data(), static_cast<int64_t>(json.size()),
                                 err);
  });
  return options;
}

namespace {

// Makes the work of one forward pass of all rows, which is a step of a model without a cache.
BenchWork make_step(Context& context, BenchSubject& subject) {
  const int64_t rows = size_of_work(context, subject, "rows", "step");
  const bool logits = context.text("logits") != "none";
  const auto count = static_cast<double>(rows), heads = logits ? count : 0;
  const double keys = mean_keys(subject.about.value("attention", ""), count,
                                subject.about.value("block_length", 0.0));
  const double flops = subject.cost.flops(count, keys, heads);
  const std::shared_ptr<dllm_batch> batch = batch_of(made_up_ids(subject, rows, 0), 1);
  const std::shared_ptr<dllm_options> options =
      options_with("forward", {{"outputs", {logits ? "logits" : "hidden"}}});
  return {"step",
          {{"rows", rows}, {"logits", logits ? "all" : "none"}},
          rows,
          subject.cost.bytes(count, heads),
          [&context, &subject, batch, options, flops] {
            Owned<dllm_batch> result;
            const double seconds = seconds_of([&] {
              result = make<dllm_batch>([&](dllm_batch** out, dllm_error* err) {
                return dllm_model_forward(subject.weights.get(), batch.get(), options.get(),
                                          context.task(), out, err);
              });
            });
            return BenchSample{seconds, flops};
          }};
}

struct Training {
  Owned<dllm_objective> objective;
  Owned<dllm_trainer> trainer;
  int64_t step = 0;
};

// Counts the rows with a target, for which alone the head is computed.
double count_targets(const dllm_batch* batch, int64_t tokens) {
  const auto targets = make<dllm_tensor>([&](dllm_tensor** out, dllm_error* err) {
    return dllm_batch_array(batch, "targets", out, err);
  });
  std::vector<int32_t> ids(static_cast<size_t>(tokens));
  call([&](dllm_error* err) {
    return dllm_tensor_read(targets.get(), DLLM_I32, ids.data(),
                            static_cast<int64_t>(ids.size() * sizeof(int32_t)), err);
  });
  return static_cast<double>(
      std::count_if(ids.begin(), ids.end(), [](int32_t id) { return id >= 0; }));
}

// A training step: noise, forward pass, gradients and update. The backward pass has twice the
// products of the forward pass.
BenchWork make_train(Context& context, BenchSubject& subject) {
  const int64_t rows = size_of_work(context, subject, "batch", "train");
  const int64_t length = size_of_work(context, subject, "length", "train");
  const auto training = std::make_shared<Training>();
  training->objective = make<dllm_objective>([&](dllm_objective** out, dllm_error* err) {
    return dllm_objective_new("mdlm", nullptr, nullptr, out, err);
  });
  training->trainer = make<dllm_trainer>([&](dllm_trainer** out, dllm_error* err) {
    return dllm_trainer_new(subject.weights.get(), training->objective.get(), nullptr, out, err);
  });
  const auto tokens = static_cast<double>(rows * length), keys = static_cast<double>(length);
  return {"train",
          {{"batch", rows}, {"length", length}},
          rows * length,
          2 * subject.cost.bytes(tokens, 1),
          [&context, &subject, training, rows, length, tokens, keys] {
            const auto batch =
                batch_of(made_up_ids(subject, rows * length, ++training->step), rows);
            Owned<dllm_batch> noised;
            const double seconds = seconds_of([&] {
              noised = make<dllm_batch>([&](dllm_batch** out, dllm_error* err) {
                return dllm_objective_prepare(training->objective.get(), subject.weights.get(),
                                              batch.get(), 7, training->step, out, err);
              });
              double loss = 0;
              call([&](dllm_error* err) {
                return dllm_trainer_step(training->trainer.get(), noised.get(), context.task(),
                                         &loss, err);
              });
            });
            const double masked = count_targets(noised.get(), rows * length);
            return BenchSample{seconds, 3 * subject.cost.flops(tokens, keys, masked)};
          }};
}

} // namespace

const std::vector<std::string>& bench_work_names() {
  static const std::vector<std::string> names = {"step", "prefill", "decode", "train"};
  return names;
}

void check_sizes(const Context& context, const std::string& what) {
  for (const char* name : {"rows", "context", "batch", "length"}) {
    if (!context.typed(name)) continue;
    const bool used =
        std::any_of(std::begin(kSizes), std::end(kSizes), [&](const SizeOption& size) {
          return std::string(size.name) == name && what == size.work;
        });
    if (!used)
      throw UsageFailure(
          std::string("--") + name + " is not a size of " +
          (what == "all" ? "all works together: name one of them" : "dllm bench " + what));
    const int64_t least = std::string(name) == "context" ? 0 : 1;
    if (context.number(name) < least)
      throw UsageFailure(std::string("--") + name + " takes " + std::to_string(least) +
                         " and more, not " + context.text(name));
  }
  if (!context.typed("logits")) return;
  if (what != "step") throw UsageFailure("--logits is an option of dllm bench step");
  const std::string logits = context.text("logits");
  if (logits != "all" && logits != "none")
    throw UsageFailure("--logits takes all or none, not \"" + logits + "\"");
}

BenchWork make_work(Context& context, BenchSubject& subject, const std::string& what) {
  if (what == "step") return make_step(context, subject);
  if (what == "prefill") return make_prefill(context, subject);
  return what == "decode" ? make_decode(context, subject) : make_train(context, subject);
}

} // namespace dllm::cli
