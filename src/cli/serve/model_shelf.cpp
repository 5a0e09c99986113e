#include "model_shelf.h"

#include "../commands/compile/compile_report.h"

#include <chrono>
#include <utility>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::milliseconds kShelfLook{100}, kRoomLook{20};

std::string too_large_text(const ModelEntry& entry, int64_t bytes, int64_t most) {
  return "model \"" + entry.name + "\" has " + bytes_text(static_cast<double>(bytes)) +
         " of weights, and the models together may have " + bytes_text(static_cast<double>(most));
}

// Adds numbers, and those in objects and lists. The edges of a histogram stay.
void add_totals(Json& sum, const Json& totals) {
  if (sum.is_null()) {
    sum = totals;
  } else if (totals.is_structured()) {
    for (const auto& [key, value] : totals.items()) {
      if (key != "edges") add_totals(totals.is_array() ? sum[std::stoul(key)] : sum[key], value);
    }
  } else if (totals.is_number_float()) {
    sum = sum.get<double>() + totals.get<double>();
  } else {
    sum = sum.get<int64_t>() + totals.get<int64_t>();
  }
}

} // namespace

std::string adapter_name(const std::string& adapter) {
  return adapter.substr(0, adapter.find('='));
}

void Bell::answer_with(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  call_ = std::move(call);
}

void Bell::ring() const {
  const std::lock_guard lock(mutex_);
  if (call_) call_();
}

ShelvedModel::ShelvedModel(Queue queue, int64_t bytes, std::shared_ptr<const Bell> bell)
    : queue_(std::move(queue)), bytes_(bytes), bell_(std::move(bell)), watcher_([this] {
        for (int64_t seen = 0; !is_ending_;) {
          seen = queue_.wait(-1, seen, kShelfLook).version;
          bell_->ring();
        }
      }) {}

ShelvedModel::~ShelvedModel() {
  is_ending_ = true;
  watcher_.join();
}

ModelShelf::ModelShelf(std::vector<ModelEntry> entries, int64_t most_bytes, Load load)
    : entries_(std::move(entries)), most_bytes_(most_bytes), load_(std::move(load)),
      places_(entries_.size()) {
  if (entries_.empty()) throw Failure(DLLM_INVALID_ARGUMENT, "a server has no model");
  for (size_t i = 0; i < entries_.size(); ++i) {
    places_[i].bytes = entries_[i].bytes;
    check_size(i);
  }
}

// Fails for a model that has no room even alone.
void ModelShelf::check_size(size_t index) const {
  const int64_t bytes = places_[index].bytes;
  if (most_bytes_ <= 0 || bytes <= most_bytes_) return;
  throw Failure(DLLM_UNAVAILABLE, too_large_text(entries_[index], bytes, most_bytes_),
                "give dllm serve a larger --weights-memory");
}

ShelvedModelRef ModelShelf::loaded(size_t index) const {
  const std::lock_guard lock(mutex_);
  if (is_crowded_) return nullptr;
  places_[index].used_at = ++uses_;
  return places_[index].model;
}

int64_t ModelShelf::bytes_of_others(size_t index) const {
  int64_t bytes = 0;
  for (size_t i = 0; i < places_.size(); ++i)
    bytes += i != index && places_[i].model != nullptr ? places_[i].bytes : 0;
  return bytes;
}

bool ModelShelf::release_one(size_t index, std::unique_lock<std::mutex>& lock) {
  Place* oldest = nullptr;
  for (size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    const bool is_idle = i != index && place.model != nullptr && place.model.use_count() == 1;
    if (is_idle && (oldest == nullptr || place.used_at < oldest->used_at)) oldest = &place;
  }
  if (oldest == nullptr) return false;
  const Json queue = Json::parse(oldest->model->queue().describe());
  add_totals(oldest->past["totals"], queue.at("totals"));
  add_totals(oldest->past["durations"], queue.at("durations"));
  ShelvedModelRef released = std::exchange(oldest->model, nullptr);
  lock.unlock();
  released.reset();
  lock.lock();
  return true;
}

void ModelShelf::make_room(size_t index, const std::function<bool()>& is_wanted) {
  if (most_bytes_ <= 0) return;
  std::unique_lock lock(mutex_);
  struct Crowd {
    bool& is_crowded;
    ~Crowd() { is_crowded = false; }
  } const crowd{is_crowded_}; // ends before the lock
  is_crowded_ = true;
  while (bytes_of_others(index) + places_[index].bytes > most_bytes_) {
    if (release_one(index, lock)) continue;
    lock.unlock();
    const bool is_left = !is_wanted();
    std::this_thread::sleep_for(kRoomLook);
    lock.lock();
    if (is_left)
      throw Failure(DLLM_CANCELLED, "the request ended before there was room for its model");
  }
}

ShelvedModelRef ModelShelf::load(size_t index, const std::function<bool()>& is_wanted,
                                 dllm_task* task) {
  const std::lock_guard alone(loading_);
  if (ShelvedModelRef held = loaded(index)) return held;
  {
    const std::lock_guard lock(mutex_);
    check_size(index);
  }
  make_room(index, is_wanted);
  Loaded made = load_(entries_[index], task);
  std::unique_lock lock(mutex_);
  places_[index].bytes = made.bytes; // it was that of the files, so it is looked at again
  check_size(index);
  auto model = std::make_shared<const ShelvedModel>(std::move(made.queue), made.bytes, bell_);
  places_[index].model = model;
  // The weights in memory may be larger than the files were.
  while (most_bytes_ > 0 && bytes_of_others(index) + made.bytes > most_bytes_) {
    if (!release_one(index, lock)) break;
  }
  return model;
}

Json ModelShelf::describe() const {
  Json all = Json::array();
  for (size_t i = 0; i < entries_.size(); ++i) {
    const std::lock_guard lock(mutex_); // no model is released while it is described
    const Place& place = places_[i];
    Json row = {{"name", entries_[i].name}, {"bytes", place.bytes}, {"loaded", false}};
    row["queue"] = nullptr;
    for (const char* key : {"totals", "durations"}) row[key] = place.past.at(key);
    if (place.model != nullptr) {
      row["loaded"] = true;
      row["queue"] = Json::parse(place.model->queue().describe());
      for (const char* key : {"totals", "durations"}) add_totals(row[key], row["queue"].at(key));
    }
    all.push_back(std::move(row));
  }
  return all;
}

} // namespace dllm::cli
