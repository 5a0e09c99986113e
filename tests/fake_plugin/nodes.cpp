#include "nodes.h"

#include "guard.h"

#include <cstdlib>

namespace fake {
namespace {

abi::Error* callback_error(abi::ErrorCode code, const char* message, size_t size) {
  return make_error(code, std::string(message, size));
}
abi::CallbackError make_callback_error = callback_error;

// Bytes of all values, zeros too.
std::string filling(int64_t node, int64_t bytes) {
  std::string made(static_cast<size_t>(bytes), '\0');
  for (size_t i = 0; i < made.size(); ++i)
    made[i] = static_cast<char>(i * 7 + static_cast<size_t>(node));
  return made;
}

std::string key_of(const char* what, int64_t node) {
  return std::string("fake:") + what + "/" + std::to_string(node);
}

} // namespace

abi::Error* Nodes::join(const abi::ClientCreateArgs& args, const Settings& settings) {
  counts_ = {devices};
  if (count == 1) return nullptr;
  if (own < 0 || own >= count) return invalid("node_id is not in 0 to num_nodes - 1");
  get_ = args.kv_get_callback, get_arg_ = args.kv_get_user_arg;
  put_ = args.kv_put_callback, put_arg_ = args.kv_put_user_arg;
  try_get_ = args.kv_try_get_callback, try_get_arg_ = args.kv_try_get_user_arg;
  if (get_ == nullptr || put_ == nullptr || try_get_ == nullptr)
    return make_error(9, "num_nodes > 1 needs a key-value store");
  timeout_ms_ = static_cast<int>(settings.store_timeout_ms);
  meets_ = settings.meets != 0;
  check_missing_key();
  const std::string own_words = std::to_string(devices) + ' ' + filling(own, settings.store_bytes);
  if (abi::Error* error = put(key_of("devices", own), own_words)) return error;
  counts_.clear();
  for (int64_t node = 0; node < count; ++node) {
    std::string words;
    if (abi::Error* error = get(key_of("devices", node), &words)) return error;
    counts_.push_back(std::atoll(words.c_str()));
    if (words.substr(words.find(' ') + 1) != filling(node, settings.store_bytes))
      State::get().violation("the key-value store changed a value of process " +
                             std::to_string(node));
  }
  return nullptr;
}

int64_t Nodes::all() const {
  int64_t sum = 0;
  for (const int64_t devices_of_node : counts_) sum += devices_of_node;
  return sum;
}

int64_t Nodes::node_of(int64_t device) const {
  int64_t node = 0;
  while (device >= counts_[static_cast<size_t>(node)])
    device -= counts_[static_cast<size_t>(node++)];
  return count == 1 ? own : node;
}

abi::Error* Nodes::meet() {
  if (count == 1 || !meets_) return nullptr;
  const std::string key = "run " + std::to_string(meetings_++);
  if (abi::Error* error = put(key_of(key.c_str(), own), "")) return error;
  for (int64_t node = 0; node < count; ++node) {
    std::string words;
    if (abi::Error* error = get(key_of(key.c_str(), node), &words)) return error;
  }
  return nullptr;
}

abi::Error* Nodes::put(const std::string& key, const std::string& value) const {
  abi::KeyValuePutCallbackArgs args{}; // without a head, as XLA's wrapper leaves it
  args.key = key.data();
  args.key_size = key.size();
  args.value = value.data();
  args.value_size = value.size();
  args.callback_error = &make_callback_error;
  args.user_arg = put_arg_;
  return put_(&args);
}

abi::Error* Nodes::get(const std::string& key, std::string* value) const {
  abi::KeyValueGetCallbackArgs args{};
  args.key = key.data();
  args.key_size = key.size();
  args.timeout_in_ms = timeout_ms_;
  args.callback_error = &make_callback_error;
  args.user_arg = get_arg_;
  if (abi::Error* error = get_(&args)) return error;
  value->assign(args.value, args.value_size);
  args.deleter(args.value);
  return nullptr;
}

// The answer to a key that is not there is not_found, at once.
void Nodes::check_missing_key() const {
  const std::string key = key_of("missing", own);
  abi::KeyValueTryGetCallbackArgs args{};
  args.key = key.data();
  args.key_size = key.size();
  args.callback_error = &make_callback_error;
  args.user_arg = try_get_arg_;
  abi::Error* error = try_get_(&args);
  if (error == nullptr || error->code != 5)
    State::get().violation("the key-value store has no not_found for a missing key");
  if (error == nullptr) return args.deleter(args.value);
  State::get().remove("error", error, "fake plugin");
  delete error;
}

} // namespace fake
