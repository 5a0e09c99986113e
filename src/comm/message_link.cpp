// The messages of one rank: exchanges with a group, waits, and notices of failures.
#include "comm/message_link.h"

#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace dllm::comm {
namespace {

constexpr int32_t kTagsOfChannel = Transport::kTagsOfChannel;
constexpr int64_t kNoBarrier = -1;
// Time that a wait continues after a rank has ended, because messages of that rank may still
// arrive.
constexpr std::chrono::seconds kPatience(5);
constexpr std::chrono::milliseconds kLook(200);

uint64_t hash_of(Group group) {
  uint64_t hash = 1469598103934665603u; // FNV-1a
  for (const int64_t rank : group) hash = (hash ^ static_cast<uint64_t>(rank)) * 1099511628211u;
  return hash;
}

template <size_t N> void put_text(std::array<char, N>& to, const std::string& text) {
  to = {};
  std::memcpy(to.data(), text.data(), std::min(text.size(), N - 1));
}

} // namespace

// The messages that are not done yet. The destructor drops them.
class MessageLink::Requests {
public:
  explicit Requests(Transport& transport) : transport_(transport) {}
  ~Requests() {
    for (const Open& open : open_) transport_.drop(open.request);
  }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  void send(int64_t to, int32_t tag, const std::byte* from, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += Transport::kMostBytes) {
      const int64_t count = std::min(bytes - at, Transport::kMostBytes);
      open_.push_back({transport_.send(to, tag, from + at, count), to});
    }
  }
  void receive(int64_t from, int32_t tag, std::byte* to, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += Transport::kMostBytes) {
      const int64_t count = std::min(bytes - at, Transport::kMostBytes);
      open_.push_back({transport_.receive(from, tag, to + at, count), from});
    }
  }
  bool all_done() {
    std::erase_if(open_, [&](const Open& open) { return transport_.done(open.request); });
    return open_.empty();
  }
  bool wait_for(int64_t rank) const {
    return std::ranges::any_of(open_, [&](const Open& open) { return open.peer == rank; });
  }

private:
  struct Open {
    Transport::Request request;
    int64_t peer;
  };
  Transport& transport_;
  std::vector<Open> open_;
};

MessageLink::MessageLink(std::shared_ptr<Transport> transport, int32_t channel)
    : transport_(std::move(transport)), channel_(channel), rank_(transport_->rank()),
      size_(transport_->size()), restarts_(static_cast<size_t>(size_)),
      gone_(static_cast<size_t>(size_)) {}

MessageLink::~MessageLink() {
  const std::lock_guard lock(mutex_);
  Notice notice;
  notice.news = News::leaves;
  notice.round = round_;
  try {
    notify_all(notice);
  } catch (const std::exception&) { // the transport may have ended too
  }
}

int32_t MessageLink::data_tag() const {
  return channel_ * kTagsOfChannel + 1 + round_ % (kTagsOfChannel - 1);
}

void MessageLink::exchange(Group group, const std::string& what, const std::vector<Piece>& gives,
                           const std::vector<Piece>& gets, const Task* task) {
  Lock lock(mutex_);
  take_notices();
  fail_if_aborted(kNoBarrier);
  meet(lock, group, what, gives, gets, task, kNoBarrier);
}

// After a rank has sent its heads it ignores its task, because other ranks may already have passed
// the barrier.
void MessageLink::barrier(Group group, const Task* task) {
  Lock lock(mutex_);
  take_notices();
  fail_if_aborted(kNoBarrier);
  check_waiting(lock, task);
  const bool of_all = static_cast<int64_t>(group.size()) == size_;
  const std::vector<Piece> none(group.size());
  meet(lock, group, "barrier", none, none, nullptr, of_all ? barriers_ : kNoBarrier);
  if (of_all) ++barriers_;
}

void MessageLink::meet(Lock& lock, Group group, const std::string& what,
                       const std::vector<Piece>& gives, const std::vector<Piece>& gets,
                       const Task* task, int64_t barrier) {
  Requests open(*transport_), heads(*transport_);
  while (out_.size() < group.size()) {
    out_.push_back(std::make_unique<Head>());
    in_.push_back(std::make_unique<Head>());
  }
  const auto is_short = [](const Piece& piece) {
    return piece.bytes <= static_cast<int64_t>(sizeof Head::piece);
  };
  for (size_t m = 0; m < group.size(); ++m) {
    if (group[m] == rank_) continue;
    Head& head = *out_[m];
    const Piece& give = gives[m];
    head.group = hash_of(group);
    head.bytes = give.bytes;
    put_text(head.what, what);
    if (is_short(give) && give.bytes > 0)
      std::memcpy(head.piece.data(), give.from, static_cast<size_t>(give.bytes));
    heads.receive(group[m], data_tag(), reinterpret_cast<std::byte*>(in_[m].get()), sizeof(Head));
    open.send(group[m], data_tag(), reinterpret_cast<const std::byte*>(&head), sizeof(Head));
    if (!is_short(give)) open.send(group[m], data_tag(), give.from, give.bytes);
    bytes_sent_ += give.bytes;
  }
  const Clock::time_point begin = Clock::now();
  wait(lock, heads, task, barrier);
  waited_us_ += std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count();
  check_heads(what, group, gets);
  for (size_t m = 0; m < group.size(); ++m) {
    const Piece& get = gets[m];
    if (group[m] == rank_ || get.bytes == 0) continue;
    if (is_short(get))
      std::memcpy(get.to, in_[m]->piece.data(), static_cast<size_t>(get.bytes));
    else
      open.receive(group[m], data_tag(), get.to, get.bytes);
  }
  wait(lock, open, task, barrier);
}

void MessageLink::check_heads(const std::string& what, Group group,
                              const std::vector<Piece>& gets) {
  std::array<char, Head::kTextBytes> mine;
  put_text(mine, what);
  for (size_t m = 0; m < group.size(); ++m) {
    if (group[m] == rank_) continue;
    const Head& head = *in_[m];
    const bool same = head.what == mine && head.group == hash_of(group);
    if (same && head.bytes == gets[m].bytes) continue;
    const std::string theirs(head.what.data(), strnlen(head.what.data(), Head::kTextBytes));
    abort_locked(Error(Code::failed_precondition,
                       same ? fmt::format("ranks disagree: {} bytes from rank {}, {} are expected",
                                          head.bytes, group[m], gets[m].bytes)
                            : fmt::format("ranks disagree: {} on rank {} and {} on rank {}", what,
                                          rank_, theirs, group[m]),
                       "make the same calls in the same order on all ranks"));
    fail_if_aborted(kNoBarrier);
  }
}

void MessageLink::wait(Lock& lock, Requests& open, const Task* task, int64_t barrier) {
  const Clock::time_point start = Clock::now();
  for (int64_t turn = 0; !open.all_done(); ++turn) {
    take_notices();
    fail_if_aborted(barrier);
    if (turn % 16 == 0) check_others(start, &open);
    check_waiting(lock, task);
    pause(lock, turn);
  }
}

void MessageLink::check_waiting(Lock& lock, const Task* task) {
  lock.unlock();
  try {
    check_task(task);
  } catch (const Error& error) {
    lock.lock();
    abort_locked(error);
    throw;
  }
  lock.lock();
}

// Fails with aborted if this rank waits for a rank that has ended or has made its last call. The
// failure comes after kPatience, because earlier messages of that rank may still arrive. open: the
// messages waited for; null means that this rank waits for all ranks.
void MessageLink::check_others(Clock::time_point since, const Requests* open) {
  const Clock::time_point now = Clock::now();
  if (ended_.empty() && find_ended_ && now - since > kLook && now - looked_at_ > kLook) {
    looked_at_ = now;
    ended_ = find_ended_();
    gone_at_ = now;
  }
  std::string why = ended_;
  for (int64_t rank = 0; rank < size_ && why.empty(); ++rank) {
    if (gone_[static_cast<size_t>(rank)] && (open == nullptr || open->wait_for(rank)))
      why = fmt::format("rank {} has ended, and this rank waits for it", rank);
  }
  if (why.empty() || now - std::max(since, gone_at_) < kPatience) return;
  abort_locked(
      Error(Code::aborted, why, "start the job again: it goes on from its last checkpoint"));
  fail_if_aborted(kNoBarrier);
}

// Yields the processor during the first turns of a wait and sleeps later, so that ranks that share
// a processor can run.
void MessageLink::pause(Lock& lock, int64_t turn) const {
  lock.unlock();
  if (turn < yields_)
    sched_yield();
  else
    std::this_thread::sleep_for(std::chrono::microseconds(turn < yields_ + 2000 ? 50 : 500));
  lock.lock();
}

void MessageLink::take_notices() {
  for (;;) {
    Notice notice;
    const auto from = transport_->take(channel_ * kTagsOfChannel,
                                       {reinterpret_cast<std::byte*>(&notice), sizeof notice});
    if (!from) return;
    if (notice.round > round_)
      early_.emplace_back(*from, notice);
    else if (notice.round == round_)
      take_in(*from, notice);
  }
}

void MessageLink::take_in(int64_t from, const Notice& notice) {
  switch (notice.news) {
  case News::failed:
    if (!failure_)
      failure_ =
          Failure{Error(static_cast<Code>(notice.code), notice.text.data(), notice.hint.data()),
                  notice.barriers};
    break;
  case News::restarts: restarts_[static_cast<size_t>(from)] = true; break;
  case News::leaves:
    gone_[static_cast<size_t>(from)] = true;
    gone_at_ = Clock::now();
    break;
  }
}

void MessageLink::notify_all(const Notice& notice) {
  static_assert(sizeof(Notice) <= Transport::kQuickBytes);
  for (int64_t to = 0; to < size_; ++to) {
    if (to == rank_) continue;
    const Transport::Request request =
        transport_->send(to, channel_ * kTagsOfChannel, &notice, sizeof notice);
    if (!transport_->done(request)) transport_->drop(request);
  }
}

void MessageLink::abort(const Error& reason) noexcept {
  const std::lock_guard lock(mutex_);
  abort_locked(reason);
}

void MessageLink::abort_locked(const Error& reason) noexcept {
  if (failure_) return;
  try {
    const std::string text = fmt::format("rank {} failed: {}", rank_, reason.text());
    Notice notice;
    notice.round = round_;
    notice.code = static_cast<int32_t>(reason.code());
    notice.barriers = barriers_;
    put_text(notice.text, text);
    put_text(notice.hint, reason.hint());
    failure_ = Failure{Error(reason.code(), text, reason.hint()), barriers_};
    notify_all(notice);
  } catch (...) {
    if (!failure_) failure_ = Failure{Error(Code::resource_exhausted, "a rank failed"), barriers_};
  }
}

// Throws the failure. Barrier number `barrier` of all ranks ignores a failure of a rank that has
// passed this barrier, because that rank has met this one there.
void MessageLink::fail_if_aborted(int64_t barrier) const {
  if (failure_ && (barrier == kNoBarrier || failure_->barriers <= barrier))
    throw Error(failure_->error);
}

void MessageLink::restart(const Task* task) {
  Lock lock(mutex_);
  if (!restarts_[static_cast<size_t>(rank_)]) {
    restarts_[static_cast<size_t>(rank_)] = true;
    Notice notice;
    notice.news = News::restarts;
    notice.round = round_;
    notify_all(notice);
  }
  const Clock::time_point start = Clock::now();
  for (int64_t turn = 0;; ++turn) {
    take_notices();
    if (std::ranges::all_of(restarts_, [](bool is) { return is; })) break;
    if (turn % 16 == 0) check_others(start, nullptr);
    check_waiting(lock, task);
    pause(lock, turn);
  }
  ++round_;
  failure_.reset();
  barriers_ = 0;
  restarts_.assign(restarts_.size(), false);
  for (const auto& [from, notice] : std::exchange(early_, {})) take_in(from, notice);
}

} // namespace dllm::comm
