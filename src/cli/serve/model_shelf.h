#pragma once
// A ModelShelf has the models of a server by name. It loads a model for its first request, and
// releases models without requests when their weights are above a limit.

#include "../command.h"

#include "dllm/dllm.hpp"

#include <nlohmann/json.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dllm::cli {

// What a server has of a model before the model is loaded.
struct ModelEntry {
  std::string name;                  // for clients
  std::string path;                  // a folder, a file or a run
  std::vector<std::string> adapters; // option adapter_folders: "NAME=PATH"
  std::string chat_template;         // "": the tokenizer's own
  // Of requests that do not set them.
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();
  int64_t bytes = 0; // of its files; 0: not known
};

// Returns the name of an adapter of option adapter_folders.
std::string adapter_name(const std::string& adapter);

// A Bell calls a function for the threads of several models. Any thread may ring it.
class Bell {
public:
  void answer_with(std::function<void()> call); // null: nothing is called
  void ring() const;

private:
  mutable std::mutex mutex_;
  std::function<void()> call_;
};

// A loaded model and the queue of its requests. A thread of it rings the bell after each step.
class ShelvedModel {
public:
  ShelvedModel(Queue queue, int64_t bytes, std::shared_ptr<const Bell> bell);
  ~ShelvedModel();
  ShelvedModel(const ShelvedModel&) = delete;
  ShelvedModel& operator=(const ShelvedModel&) = delete;

  const Queue& queue() const { return queue_; }
  int64_t bytes() const { return bytes_; } // of the weights

private:
  Queue queue_;
  int64_t bytes_;
  std::shared_ptr<const Bell> bell_;
  std::atomic<bool> is_ending_{false};
  std::thread watcher_;
};
using ShelvedModelRef = std::shared_ptr<const ShelvedModel>;

// Any thread may call each function. A model has requests while a ShelvedModelRef of it lives.
class ModelShelf {
public:
  struct Loaded {
    Queue queue;
    int64_t bytes = 0;
  };
  // Loads a model. Throws Failure.
  using Load = std::function<Loaded(const ModelEntry&, dllm_task*)>;

  // most_bytes: of the weights that are loaded together; 0: no limit. Fails for an empty list, and
  // for a model whose files are larger than the limit.
  ModelShelf(std::vector<ModelEntry> entries, int64_t most_bytes, Load load);

  const std::vector<ModelEntry>& entries() const { return entries_; }
  // The models call `wake` after each step, from threads of their own. null: no call.
  void on_step(std::function<void()> wake) { bell_->answer_with(std::move(wake)); }

  // Returns a model that is loaded. Returns null for another model, and for all models while a
  // request waits for room: the request is not overtaken.
  ShelvedModelRef loaded(size_t index) const;
  // Loads a model unless it is loaded. First waits until models without requests make room for it.
  // is_wanted: the wait ends with DLLM_CANCELLED when it returns false. task: cancels the load.
  ShelvedModelRef load(size_t index, const std::function<bool()>& is_wanted, dllm_task* task);

  // Returns [{"name", "bytes", "loaded", "queue": of dllm_queue_describe or null, "totals",
  // "durations"}]. The last two also count the requests of earlier loads.
  nlohmann::ordered_json describe() const;

private:
  struct Place {
    ShelvedModelRef model;
    int64_t bytes = 0;   // of the model, or of its files before the first load
    int64_t used_at = 0; // grows with each use
    // Totals and durations of earlier loads.
    nlohmann::ordered_json past = {{"totals", nlohmann::ordered_json::object()},
                                   {"durations", nlohmann::ordered_json::object()}};
  };

  void check_size(size_t index) const; // REQUIRES: mutex_ is held, or no other thread calls
  void make_room(size_t index, const std::function<bool()>& is_wanted);
  // Releases the model without requests that was not used for the longest time, other than
  // `index`. Returns false when there is none.
  bool release_one(size_t index, std::unique_lock<std::mutex>& lock);
  int64_t bytes_of_others(size_t index) const;

  const std::vector<ModelEntry> entries_;
  const int64_t most_bytes_;
  const Load load_;
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  std::mutex loading_; // held by the thread that loads

  mutable std::mutex mutex_;
  mutable std::vector<Place> places_;
  mutable int64_t uses_ = 0;
  bool is_crowded_ = false; // a request waits for room
};

} // namespace dllm::cli
