#include "comm/message_ranks.h"

#include "comm/message_link.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace dllm::comm {
namespace {

constexpr int64_t kPart = 1 << 20;       // elements reduced at a time, which limits scratch_
constexpr int64_t kGatheredBytes = 1024; // up to this size an all_reduce is one exchange, not two

const std::byte* bytes_of(const void* array, int64_t offset) {
  return static_cast<const std::byte*>(array) + offset;
}
std::byte* bytes_of(void* array, int64_t offset) {
  return static_cast<std::byte*>(array) + offset;
}

size_t member_of(Group group, int64_t rank) {
  const auto found = std::ranges::find(group, rank);
  if (found == group.end()) fail(Code::internal, "rank {} is not in its group", rank);
  return static_cast<size_t>(found - group.begin());
}

void copy(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

// The elements of a part that one member reduces.
struct Share {
  int64_t begin = 0, count = 0;
};
Share share_of(int64_t count, int64_t member, int64_t members) {
  const int64_t begin = count * member / members;
  return {begin, count * (member + 1) / members - begin};
}

} // namespace

MessageRank::MessageRank(std::shared_ptr<Transport> transport, int32_t channel)
    : link_(std::make_unique<MessageLink>(std::move(transport), channel)) {}
MessageRank::~MessageRank() = default;

int64_t MessageRank::rank() const {
  return link_->rank();
}
int64_t MessageRank::size() const {
  return link_->size();
}
int64_t MessageRank::bytes_sent() const {
  return link_->bytes_sent();
}
int64_t MessageRank::waited_us() const {
  return link_->waited_us();
}

void MessageRank::all_gather(Group group, const void* in, void* out, int64_t bytes,
                             const Task* task) {
  const size_t own = member_of(group, rank());
  std::vector<Piece> gives(group.size()), gets(group.size());
  for (size_t m = 0; m < group.size(); ++m) {
    gives[m] = {.from = bytes_of(in, 0), .bytes = bytes};
    gets[m] = {.to = bytes_of(out, static_cast<int64_t>(m) * bytes), .bytes = bytes};
  }
  copy(gets[own].to, bytes_of(in, 0), bytes);
  link_->exchange(group, fmt::format("all_gather of {} bytes", bytes), gives, gets, task);
}

void MessageRank::gather(Group group, int64_t to, const void* in, void* out, int64_t bytes,
                         const Task* task) {
  const size_t own = member_of(group, rank()), target = static_cast<size_t>(to);
  std::vector<Piece> gives(group.size()), gets(group.size());
  if (own != target) gives[target] = {.from = bytes_of(in, 0), .bytes = bytes};
  for (size_t m = 0; own == target && m < group.size(); ++m) {
    std::byte* const place = bytes_of(out, static_cast<int64_t>(m) * bytes);
    if (m == own)
      copy(place, bytes_of(in, 0), bytes);
    else
      gets[m] = {.to = place, .bytes = bytes};
  }
  link_->exchange(group, fmt::format("gather of {} bytes to member {}", bytes, to), gives, gets,
                  task);
}

// Each member reduces its share of a part of the array; then all members gather the shares.
void MessageRank::all_reduce(Group group, Reduction reduction, DType dtype, const void* in,
                             void* out, int64_t count, const Task* task) {
  const auto members = static_cast<int64_t>(group.size());
  const size_t own = member_of(group, rank());
  const int64_t width = dtype_size(dtype);
  const std::string what =
      fmt::format("all_reduce {} {}[{}]", reduction_name(reduction), dtype_name(dtype), count);
  const bool gathers = count * width <= kGatheredBytes;
  std::vector<const void*> parts(group.size());
  for (int64_t at = 0; at == 0 || at < count; at += kPart) {
    const int64_t part = std::min(count - at, kPart);
    const std::byte* const from = bytes_of(in, at * width);
    std::byte* const to = bytes_of(out, at * width);
    std::vector<Piece> gives(group.size()), gets(group.size());
    const Share mine =
        gathers ? Share{0, part} : share_of(part, static_cast<int64_t>(own), members);
    scratch_.resize(static_cast<size_t>(members * mine.count * width));
    for (int64_t m = 0; m < members; ++m) {
      const auto i = static_cast<size_t>(m);
      const Share theirs = gathers ? mine : share_of(part, m, members);
      std::byte* const place = scratch_.data() + m * mine.count * width;
      gives[i] = {.from = from + theirs.begin * width, .bytes = theirs.count * width};
      gets[i] = {.to = place, .bytes = mine.count * width};
      parts[i] = i == own ? from + mine.begin * width : place;
    }
    link_->exchange(group, what, gives, gets, task);
    reduce(reduction, dtype, parts, to + mine.begin * width, mine.count);
    if (gathers) continue;
    for (int64_t m = 0; m < members; ++m) {
      const Share theirs = share_of(part, m, members);
      gives[static_cast<size_t>(m)] = {.from = to + mine.begin * width,
                                       .bytes = mine.count * width};
      gets[static_cast<size_t>(m)] = {.to = to + theirs.begin * width,
                                      .bytes = theirs.count * width};
    }
    link_->exchange(group, what, gives, gets, task);
  }
}

void MessageRank::reduce_scatter(Group group, Reduction reduction, DType dtype, const void* in,
                                 void* out, int64_t count, const Task* task) {
  const size_t own = member_of(group, rank());
  const int64_t width = dtype_size(dtype);
  const std::string what =
      fmt::format("reduce_scatter {} {}[{}]", reduction_name(reduction), dtype_name(dtype), count);
  std::vector<const void*> parts(group.size());
  for (int64_t at = 0; at == 0 || at < count; at += kPart) {
    const int64_t part = std::min(count - at, kPart);
    scratch_.resize(group.size() * static_cast<size_t>(part * width));
    std::vector<Piece> gives(group.size()), gets(group.size());
    for (size_t m = 0; m < group.size(); ++m) {
      const auto member = static_cast<int64_t>(m);
      gives[m] = {.from = bytes_of(in, (member * count + at) * width), .bytes = part * width};
      gets[m] = {.to = scratch_.data() + member * part * width, .bytes = part * width};
      parts[m] = m == own ? gives[m].from : gets[m].to;
    }
    link_->exchange(group, what, gives, gets, task);
    reduce(reduction, dtype, parts, bytes_of(out, at * width), part);
  }
}

void MessageRank::all_to_all(Group group, const void* in, void* out, int64_t bytes,
                             const Task* task) {
  const size_t own = member_of(group, rank());
  std::vector<Piece> gives(group.size()), gets(group.size());
  for (size_t m = 0; m < group.size(); ++m) {
    const int64_t offset = static_cast<int64_t>(m) * bytes;
    gives[m] = {.from = bytes_of(in, offset), .bytes = bytes};
    gets[m] = {.to = bytes_of(out, offset), .bytes = bytes};
  }
  copy(gets[own].to, gives[own].from, bytes);
  link_->exchange(group, fmt::format("all_to_all of {} bytes", bytes), gives, gets, task);
}

void MessageRank::permute(Group group, std::span<const int64_t> target, const void* in, void* out,
                          int64_t bytes, const Task* task) {
  const size_t own = member_of(group, rank());
  std::vector<Piece> gives(group.size()), gets(group.size());
  gives[static_cast<size_t>(target[own])] = {.from = bytes_of(in, 0), .bytes = bytes};
  for (size_t m = 0; m < group.size(); ++m) {
    if (target[m] == static_cast<int64_t>(own)) gets[m] = {.to = bytes_of(out, 0), .bytes = bytes};
  }
  if (target[own] == static_cast<int64_t>(own)) copy(bytes_of(out, 0), bytes_of(in, 0), bytes);
  link_->exchange(group, fmt::format("permute of {} bytes", bytes), gives, gets, task);
}

void MessageRank::barrier(Group group, const Task* task) {
  member_of(group, rank());
  link_->barrier(group, task);
}
void MessageRank::abort(const Error& reason) noexcept {
  link_->abort(reason);
}
void MessageRank::restart(const Task* task) {
  link_->restart(task);
}
void MessageRank::watch_processes(std::function<std::string()> find_ended) {
  link_->watch_processes(std::move(find_ended));
}

void MessageRank::share_processor() {
  link_->share_processor();
}

} // namespace dllm::comm
