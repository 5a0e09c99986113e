#ifndef DLLM_CPP_TRAIN_HPP
#define DLLM_CPP_TRAIN_HPP
// The classes for schedules, objectives, trainers and checkpoints.
#include "dllm/cpp/event.hpp"
#include "dllm/cpp/model.hpp"

namespace dllm {
inline namespace api {

// Appends the trajectories of the rows that the file lacks, and returns their number. teacher: null
// for method left_to_right.
inline int64_t extract_trajectories(Dataset& data, Model* teacher, std::string_view path,
                                    const Settings& settings = {}, const Task* task = nullptr) {
  int64_t rows = 0;
  settings.with("trajectories", [&](const dllm_options* opts) {
    call([&](dllm_error* err) {
      return dllm_dataset_extract_trajectories(
          data.get(), teacher != nullptr ? teacher->get() : nullptr, zero_ended(path).c_str(), opts,
          handle_of(task), &rows, err);
    });
  });
  return rows;
}

// Writes what a teacher computes from the rows of one epoch of a loader to a folder. Returns the
// number of new chunks.
inline int64_t write_anchors(Loader& loader, Model& teacher, std::string_view path,
                             const Settings& settings = {}, const Task* task = nullptr) {
  int64_t chunks = 0;
  settings.with("anchors", [&](const dllm_options* opts) {
    call([&](dllm_error* err) {
      return dllm_loader_write_anchors(loader.get(), teacher.get(), zero_ended(path).c_str(), opts,
                                       handle_of(task), &chunks, err);
    });
  });
  return chunks;
}

// A noise schedule: the probability that a token is kept at time t, and the weight of the loss.
class Schedule : public Handle<dllm_schedule> {
public:
  using Handle::Handle;
  explicit Schedule(std::string_view name, const Settings& settings = {})
      : Handle(settings.with("schedule", [&](const dllm_options* opts) {
          return make<dllm_schedule>([&](dllm_schedule** out, dllm_error* err) {
            return dllm_schedule_new(zero_ended(name).c_str(), opts, out, err);
          });
        })) {}
  // Makes a schedule from a table of points. Empty dalpha and weight are derived.
  static Schedule table(std::span<const double> t, std::span<const double> alpha,
                        std::span<const double> dalpha = {}, std::span<const double> weight = {}) {
    const auto fits = [&](std::span<const double> values) {
      return values.empty() || values.size() == t.size();
    };
    if (alpha.size() != t.size() || !fits(dalpha) || !fits(weight))
      raise(Error(DLLM_INVALID_ARGUMENT, "the columns of the table have different lengths"));
    const auto column = [](std::span<const double> values) {
      return values.empty() ? nullptr : values.data();
    };
    return Schedule(make<dllm_schedule>([&](dllm_schedule** out, dllm_error* err) {
      return dllm_schedule_table(t.data(), alpha.data(), column(dalpha), column(weight),
                                 size_of(t.size()), out, err);
    }));
  }
  struct Values {
    std::vector<double> alpha, dalpha, weight;
  };
  Values eval(std::span<const double> t) const {
    Values values{std::vector<double>(t.size()), std::vector<double>(t.size()),
                  std::vector<double>(t.size())};
    call([&](dllm_error* err) {
      return dllm_schedule_eval(get(), t.data(), size_of(t.size()), values.alpha.data(),
                                values.dalpha.data(), values.weight.data(), err);
    });
    return values;
  }
};

// An objective corrupts a batch and computes the loss. Its options are of kind "objective:<name>".
class Objective : public Handle<dllm_objective> {
public:
  using Handle::Handle;
  explicit Objective(std::string_view name, const Settings& settings = {},
                     const Schedule* schedule = nullptr)
      : Handle(settings.with("objective:" + std::string(name), [&](const dllm_options* opts) {
          return make<dllm_objective>([&](dllm_objective** out, dllm_error* err) {
            return dllm_objective_new(zero_ended(name).c_str(), handle_of(schedule), opts, out,
                                      err);
          });
        })) {}
  // Draws the noise of a step. Without a model the mask id must be in the options.
  Batch prepare(const Model* model, const Batch& batch, int64_t seed, int64_t step) const {
    return Batch(make<dllm_batch>([&](dllm_batch** out, dllm_error* err) {
      return dllm_objective_prepare(get(), handle_of(model), batch.get(), seed, step, out, err);
    }));
  }
  double loss(const Model& model, const Batch& batch, int64_t seed, const Task* task = nullptr) {
    return number<double>([&](double* out, dllm_error* err) {
      return dllm_objective_loss(get(), model.get(), batch.get(), seed, handle_of(task), out, err);
    });
  }
  // Returns the arrays "sums" and "counts", with one number per row.
  Batch row_losses(const Model& model, const Batch& batch, int64_t seed,
                   const Task* task = nullptr) {
    return Batch(make<dllm_batch>([&](dllm_batch** out, dllm_error* err) {
      return dllm_objective_row_losses(get(), model.get(), batch.get(), seed, handle_of(task), out,
                                       err);
    }));
  }
};

class Trainer : public Handle<dllm_trainer> {
public:
  using Handle::Handle;
  Trainer(const Model& model, const Objective& objective, const Settings& settings = {})
      : Handle(settings.with("trainer", [&](const dllm_options* opts) {
          return make<dllm_trainer>([&](dllm_trainer** out, dllm_error* err) {
            return dllm_trainer_new(model.get(), objective.get(), opts, out, err);
          });
        })) {}

  // Runs one step. Returns the loss before the update, in nats.
  double step(const Batch& batch, const Task* task = nullptr) {
    return number<double>([&](double* out, dllm_error* err) {
      return dllm_trainer_step(get(), batch.get(), handle_of(task), out, err);
    });
  }
  // Runs one step. Does not wait for the result on an engine that can run it in the background.
  void start_step(const Batch& batch, const Task* task = nullptr) {
    call([&](dllm_error* err) {
      return dllm_trainer_step(get(), batch.get(), handle_of(task), nullptr, err);
    });
  }
  void accumulate(const Batch& batch, const Task* task = nullptr) {
    call([&](dllm_error* err) {
      return dllm_trainer_accumulate(get(), batch.get(), handle_of(task), err);
    });
  }
  double apply(const Task* task = nullptr) {
    return number<double>([&](double* out, dllm_error* err) {
      return dllm_trainer_apply(get(), handle_of(task), out, err);
    });
  }
  void sync() {
    call([&](dllm_error* err) { return dllm_trainer_sync(get(), err); });
  }
  void run(const Loader& loader, int64_t steps, const Task* task = nullptr) {
    call([&](dllm_error* err) {
      return dllm_trainer_run(get(), loader.get(), steps, nullptr, nullptr, handle_of(task), err);
    });
  }
  // Runs and calls f with every event. f returns nothing or a Next. An exception of f is rethrown.
  template <std::invocable<const Event&> F>
  void run(const Loader& loader, int64_t steps, F&& f, const Task* task = nullptr) {
    call_with(f, [&](dllm_event_fn fn, void* data, dllm_error* err) {
      return dllm_trainer_run(get(), loader.get(), steps, fn, data, handle_of(task), err);
    });
  }
  double eval(const Loader& loader, int64_t max_batches, const Task* task = nullptr) {
    return number<double>([&](double* out, dllm_error* err) {
      return dllm_trainer_eval(get(), loader.get(), max_batches, handle_of(task), out, err);
    });
  }
  double metric(std::string_view key) const {
    return number<double>([&](double* out, dllm_error* err) {
      return dllm_trainer_metric(get(), zero_ended(key).c_str(), out, err);
    });
  }
  std::string describe() const {
    return text(
        [&](dllm_buffer* out, dllm_error* err) { return dllm_trainer_describe(get(), out, err); });
  }
  void set_f64(std::string_view key, double value) {
    call([&](dllm_error* err) {
      return dllm_trainer_set_f64(get(), zero_ended(key).c_str(), value, err);
    });
  }
  // Adds a sink of kind "jsonl", which writes to the file `target`, or of kind "console".
  void add_sink(std::string_view kind, std::string_view target = {},
                const Settings& settings = {}) {
    settings.with("sink", [&](const dllm_options* opts) {
      call([&](dllm_error* err) {
        const std::string path = zero_ended(target);
        return dllm_trainer_add_sink(get(), zero_ended(kind).c_str(),
                                     path.empty() ? nullptr : path.c_str(), opts, err);
      });
    });
  }
  // Returns the trained model ("live") or a copy of its moving average ("ema").
  Model model(std::string_view role = "live") const {
    return Model(make<dllm_model>([&](dllm_model** out, dllm_error* err) {
      return dllm_trainer_model(get(), zero_ended(role).c_str(), out, err);
    }));
  }

  // Saves everything needed to resume a run bit for bit. Returns the new folder.
  std::string save(std::string_view root, const Loader* loader = nullptr,
                   const Settings& settings = {}, const Task* task = nullptr) {
    return settings.with("checkpoint", [&](const dllm_options* opts) {
      return text([&](dllm_buffer* out, dllm_error* err) {
        return dllm_checkpoint_save(get(), handle_of(loader), zero_ended(root).c_str(), opts,
                                    handle_of(task), out, err);
      });
    });
  }
  void restore(std::string_view dir, Loader* loader = nullptr, const Task* task = nullptr) {
    call([&](dllm_error* err) {
      return dllm_checkpoint_restore(get(), handle_of(loader), zero_ended(dir).c_str(),
                                     handle_of(task), err);
    });
  }
};

// Weights on disk that are opened for reading.
class Checkpoint : public Handle<dllm_checkpoint> {
public:
  using Handle::Handle;
  explicit Checkpoint(std::string_view path, const Task* task = nullptr)
      : Handle(make<dllm_checkpoint>([&](dllm_checkpoint** out, dllm_error* err) {
          return dllm_checkpoint_open_task(zero_ended(path).c_str(), handle_of(task), out, err);
        })) {}
  // Returns the highest committed checkpoint of a run, or nothing when the run has none.
  static std::optional<std::string> latest(std::string_view root, const Task* task = nullptr) {
    bool found = true;
    std::string folder = text([&](dllm_buffer* out, dllm_error* err) {
      const dllm_status status =
          dllm_checkpoint_latest_task(zero_ended(root).c_str(), handle_of(task), out, err);
      found = status != DLLM_NOT_FOUND;
      return found ? status : DLLM_OK;
    });
    return found ? std::optional<std::string>(std::move(folder)) : std::nullopt;
  }
  std::string describe() const {
    return text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_checkpoint_describe(get(), out, err);
    });
  }
  Tensor tensor(std::string_view name) const {
    return Tensor(make<dllm_tensor>([&](dllm_tensor** out, dllm_error* err) {
      return dllm_checkpoint_tensor(get(), zero_ended(name).c_str(), out, err);
    }));
  }
  void verify(const Task* task = nullptr) const {
    call([&](dllm_error* err) { return dllm_checkpoint_verify(get(), handle_of(task), err); });
  }
};

} // namespace api
} // namespace dllm
#endif
