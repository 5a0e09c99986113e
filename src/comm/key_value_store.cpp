#include "comm/key_value_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstring>
#include <thread>

namespace dllm::comm {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kBetweenLooks(1), kEndedEvery(200);
constexpr std::chrono::seconds kUnderWay(5); // time for messages that an ended process has sent

// Returns the beginning of a key, with '?' for unprintable bytes, because keys are bytes of another
// library.
std::string shown(const std::string& key) {
  std::string text = key.substr(0, 80);
  std::ranges::replace_if(
      text, [](char c) { return std::isprint(static_cast<unsigned char>(c)) == 0; }, '?');
  return text;
}

} // namespace

KeyValueStore::KeyValueStore(std::shared_ptr<Transport> transport, int32_t channel,
                             std::function<std::string()> find_ended)
    : transport_(std::move(transport)), tag_(channel * Transport::kTagsOfChannel),
      find_ended_(std::move(find_ended)), begun_(static_cast<size_t>(transport_->size())) {}

void KeyValueStore::put(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  take_parts();
  fail_if_aborted();
  if (!values_.try_emplace(key, value).second)
    fail(Code::already_exists, "key {} of the key-value store has a value already", shown(key));
  send(Kind::put, 0, key, value);
}

std::string KeyValueStore::get(const std::string& key, Milliseconds timeout) {
  const Clock::time_point begin = Clock::now();
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      take_parts();
      if (const auto found = values_.find(key); found != values_.end()) return found->second;
      fail_if_aborted();
      check_ended(begin);
      if (Clock::now() - begin >= timeout) {
        fail_with_hint("start every process of the job, with the same plugin and mesh",
                       Code::deadline_exceeded,
                       "none of {} processes has put key {} of the key-value store in {} ms",
                       size(), shown(key), timeout.count());
      }
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

std::optional<std::string> KeyValueStore::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  take_parts();
  const auto found = values_.find(key);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

void KeyValueStore::abort(const Error& reason) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = Error(reason.code(), fmt::format("rank {} failed: {}", rank(), reason.text()),
                     reason.hint());
    send(Kind::failed, static_cast<int32_t>(reason.code()), failure_->text(), failure_->hint());
  } catch (...) { // the transport may have ended too
  }
}

void KeyValueStore::send(Kind kind, int32_t code, const std::string& key,
                         const std::string& value) {
  static_assert(sizeof(Part) == Transport::kQuickBytes);
  const std::string both = key + value;
  Part part;
  part.kind = kind;
  part.code = code;
  part.key_bytes = std::ssize(key);
  part.all_bytes = std::ssize(both);
  do {
    const size_t count =
        std::min(both.size() - static_cast<size_t>(part.offset), sizeof part.bytes);
    std::memcpy(part.bytes, both.data() + part.offset, count);
    for (int64_t to = 0; to < size(); ++to) {
      if (to == rank()) continue;
      const Transport::Request request = transport_->send(to, tag_, &part, sizeof part);
      if (!transport_->done(request)) transport_->drop(request);
    }
    part.offset += static_cast<int64_t>(count);
  } while (part.offset < part.all_bytes);
}

// Receives all waiting parts. The parts of one rank arrive in order.
void KeyValueStore::take_parts() {
  Part part;
  while (const auto from =
             transport_->take(tag_, {reinterpret_cast<std::byte*>(&part), sizeof part})) {
    std::string& both = begun_[static_cast<size_t>(*from)];
    const auto left = static_cast<size_t>(part.all_bytes - part.offset);
    both.append(part.bytes, std::min(left, sizeof part.bytes));
    if (std::ssize(both) < part.all_bytes) continue;
    take_in(part, both);
    both.clear();
  }
}

void KeyValueStore::take_in(const Part& part, const std::string& both) {
  const auto split = static_cast<size_t>(part.key_bytes);
  if (part.kind == Kind::put)
    values_.try_emplace(both.substr(0, split), both.substr(split));
  else if (!failure_)
    failure_ = Error(static_cast<Code>(part.code), both.substr(0, split), both.substr(split));
}

void KeyValueStore::fail_if_aborted() const {
  if (failure_) throw Error(*failure_);
}

void KeyValueStore::check_ended(Clock::time_point begin) {
  const Clock::time_point now = Clock::now();
  if (ended_.empty() && find_ended_ && now - begin > kEndedEvery &&
      now - looked_at_ > kEndedEvery) {
    looked_at_ = now;
    ended_ = find_ended_();
    ended_at_ = now;
  }
  if (ended_.empty() || now - std::max(begin, ended_at_) < kUnderWay) return;
  fail_with_hint("start the job again: it goes on from its last checkpoint", Code::aborted, "{}",
                 ended_);
}

} // namespace dllm::comm
