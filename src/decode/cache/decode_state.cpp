#include "decode/cache/decode_state.h"

#include "base/error.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>
#include <utility>

namespace dllm::decode {
namespace {

constexpr int64_t kCapacityStep = 64; // tiles of the attention kernel are counted from key 0

// Returns the number of equal tokens at the front, rounded down to an edge of both spans.
int64_t common_edge(std::span<const int32_t> kept, const AttentionSpan& kept_span,
                    std::span<const int32_t> known, const AttentionSpan& span) {
  if (!(kept_span == span) || !span.is_exact()) return 0;
  const auto end = std::mismatch(kept.begin(), kept.end(), known.begin(), known.end()).first;
  return span.floor(end - kept.begin());
}

} // namespace

int64_t row_capacity(int64_t length) {
  return (length + kCapacityStep - 1) / kCapacityStep * kCapacityStep;
}

DecodeState::DecodeState(std::shared_ptr<model::Model> model)
    : model_(std::move(model)), stacks_(model::state_stacks(model_->config())),
      saves_(model::has_saved(stacks_)),
      shares_(model_->engine().mesh().size(model::request_axes(model_->engine().mesh()))),
      copy_(model_) {}

std::vector<int64_t> DecodeState::used_rows() const {
  std::vector<int64_t> used(static_cast<size_t>(shares_), 0);
  for (int64_t r = 0; r < rows(); ++r)
    used[static_cast<size_t>(share_of(r))] += rows_[static_cast<size_t>(r)].used ? 1 : 0;
  return used;
}

// Returns the last edge, at most `end`, from which a pass can go on. With saved slots it is `shift`
// positions after a snapshot.
int64_t DecodeState::saved_edge(const Row& row, int64_t end) const {
  if (!saves_) return end;
  int64_t edge = 0;
  for (const Snapshot& snapshot : row.snapshots) {
    if (snapshot.position + row.kind.shift <= end) edge = snapshot.position + row.kind.shift;
  }
  return edge;
}

int64_t DecodeState::kept_by(const Row& row, std::span<const int32_t> known,
                             const AttentionSpan& span, const RowKind& kind) const {
  return row.kind == kind ? saved_edge(row, common_edge(row.tokens, row.span, known, span)) : 0;
}

int64_t DecodeState::oldest_free_row(int64_t share) const {
  int64_t oldest = -1;
  for (int64_t r = share; r < rows(); r += shares_) {
    const Row& row = rows_[static_cast<size_t>(r)];
    if (row.used) continue;
    if (oldest < 0 || row.last_use < rows_[static_cast<size_t>(oldest)].last_use) oldest = r;
  }
  return oldest;
}

DecodeState::Offer DecodeState::best_row(std::span<const int32_t> known, const AttentionSpan& span,
                                         const RowKind& kind) const {
  Offer best, copied;
  const std::vector<int64_t> used = used_rows();
  for (int64_t r = 0; r < rows(); ++r) {
    const Row& row = rows_[static_cast<size_t>(r)];
    const int64_t kept = kept_by(row, known, span, kind);
    if (row.used) {
      if (kept > copied.kept) copied = {-1, kept, r};
      continue;
    }
    // Among rows that keep the same number of positions, takes one of the share with the fewest
    // requests, and of its rows the oldest.
    const auto rank = [&](int64_t number, int64_t own_kept) {
      return std::tuple(-own_kept, used[static_cast<size_t>(share_of(number))],
                        rows_[static_cast<size_t>(number)].last_use);
    };
    if (best.row < 0 || rank(r, kept) < rank(best.row, best.kept)) best = {r, kept, -1};
  }
  if (copied.kept < best.kept + kLeastCopied ||
      used[static_cast<size_t>(share_of(copied.donor))] > std::ranges::min(used))
    return best;
  copied.row = oldest_free_row(share_of(copied.donor));
  return copied;
}

int64_t DecodeState::acquire(int64_t length, std::span<const int32_t> known,
                             const AttentionSpan& span, const RowKind& kind) {
  const int64_t wanted = row_capacity(length);
  Offer offer = best_row(known, span, kind);
  if (offer.row < 0) {
    offer.row = rows() + (offer.donor < 0 ? 0 : share_of(offer.donor));
    resize(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(own_rows() + 1))) * shares_,
           std::max(capacity_, wanted));
  } else if (wanted > capacity_) {
    resize(rows(), wanted);
  }
  if (offer.donor >= 0) copy_beginning(offer.donor, offer.row, offer.kept);
  Row& row = rows_[static_cast<size_t>(offer.row)];
  row.used = true;
  row.span = span;
  rewind(offer.row, offer.kept);
  row.kind = kind;
  row.last_use = ++clock_;
  row.generation = ++generations_;
  reused_ += offer.kept;
  return offer.row;
}

void DecodeState::copy_beginning(int64_t donor, int64_t row, int64_t count) {
  Row& copy = rows_[static_cast<size_t>(row)];
  copy.tokens.clear(); // in case that the copy fails half way
  copy.snapshots.clear();
  copy_.run(buffers_, {own_rows(), capacity_}, {share_of(row), own_row(donor), own_row(row)},
            count);
  const Row& kept = rows_[static_cast<size_t>(donor)];
  copy.tokens.assign(kept.tokens.begin(), kept.tokens.begin() + count);
  copy.snapshots = kept.snapshots;
  copy.kind = kept.kind;
}

CacheView DecodeState::offer(std::span<const int32_t> known, const AttentionSpan& span,
                             const RowKind& kind) const {
  return {best_row(known, span, kind).kept, generations_ + 1};
}

int64_t DecodeState::common_beginning(std::span<const int32_t> others,
                                      const AttentionSpan& others_span,
                                      std::span<const int32_t> known, const AttentionSpan& span,
                                      int64_t end) {
  others = others.first(std::min(others.size(), static_cast<size_t>(std::max<int64_t>(end, 0))));
  return common_edge(others, others_span, known, span);
}

void DecodeState::release(int64_t row) {
  rows_[static_cast<size_t>(row)].used = false;
}

CacheView DecodeState::view(int64_t row) const {
  const Row& kept = rows_[static_cast<size_t>(row)];
  return {static_cast<int64_t>(kept.tokens.size()), kept.generation};
}

void DecodeState::commit(int64_t row, std::span<const int32_t> ids, int64_t begin, int64_t end) {
  Row& kept = rows_[static_cast<size_t>(row)];
  const auto first = static_cast<int64_t>(kept.tokens.size());
  if (const SavedPass pass = saved_pass(row, begin, end); pass.to >= 0) {
    std::erase_if(kept.snapshots, [&](const Snapshot& snapshot) {
      return snapshot.place == pass.to || snapshot.position > begin;
    });
    kept.snapshots.push_back({begin + pass.length, pass.to});
  }
  if (end > first) kept.tokens.insert(kept.tokens.end(), ids.begin() + first, ids.begin() + end);
  rewind(row, std::max(begin, end));
}

void DecodeState::rewind(int64_t row, int64_t end) {
  Row& kept = rows_[static_cast<size_t>(row)];
  const int64_t edge = saved_edge(
      kept, std::min(static_cast<int64_t>(kept.tokens.size()), std::max<int64_t>(end, 0)));
  kept.tokens.resize(static_cast<size_t>(edge));
  std::erase_if(kept.snapshots, [&](const Snapshot& snapshot) { return snapshot.position > edge; });
}

int64_t DecodeState::start(int64_t row, int64_t begin) const {
  if (!saves_) return begin;
  int64_t at = 0;
  for (const Snapshot& snapshot : rows_[static_cast<size_t>(row)].snapshots) {
    if (snapshot.position <= begin) at = snapshot.position;
  }
  return at;
}

SavedPass DecodeState::saved_pass(int64_t row, int64_t begin, int64_t final_end) const {
  SavedPass pass;
  if (!saves_) return pass;
  const std::vector<Snapshot>& snapshots = rows_[static_cast<size_t>(row)].snapshots;
  const int64_t shift = rows_[static_cast<size_t>(row)].kind.shift;
  for (const Snapshot& snapshot : snapshots) {
    if (snapshot.position == begin) pass.from = snapshot.place;
  }
  if (pass.from < 0 && begin > 0)
    fail(Code::internal, "no snapshot of row {} at position {}", row, begin);
  pass.length = std::max<int64_t>(0, final_end - shift - begin);
  if (pass.length == 0) return pass;
  // Takes a free place. Else it takes the place of an outdated snapshot after the beginning of the
  // window, or of the oldest snapshot.
  const auto is_free = [&](int64_t place) {
    return std::none_of(snapshots.begin(), snapshots.end(), [&](const Snapshot& snapshot) {
      return snapshot.place == place && snapshot.position <= begin;
    });
  };
  for (int64_t place = 0; place < model::kSnapshots && pass.to < 0; ++place) {
    if (is_free(place)) pass.to = place;
  }
  if (pass.to < 0) pass.to = snapshots[snapshots[0].place == pass.from ? 1 : 0].place;
  return pass;
}

void DecodeState::clear(std::span<const int64_t> rows) {
  if (rows.empty()) return;
  recover();
  for (const int64_t row : rows) {
    Row& cleared = rows_[static_cast<size_t>(row)];
    cleared.tokens.clear();
    cleared.snapshots.clear();
    cleared.generation = ++generations_;
    cleared.spoiled = true;
  }
  resize(this->rows(), capacity_);
  for (Row& row : rows_) row.spoiled = false;
}

void DecodeState::lose() {
  lose([](const RowKind&) { return true; });
}

void DecodeState::lose(const std::function<bool(const RowKind&)>& is_lost) {
  for (Row& row : rows_) {
    if (!is_lost(row.kind)) continue;
    row.tokens.clear();
    row.snapshots.clear();
    row.generation = ++generations_;
  }
}

void DecodeState::recover() {
  if (!buffers_.empty() || rows_.empty() || stacks_.empty()) return;
  lose();
  resize(rows(), capacity_);
}

StateBuffers DecodeState::take() {
  recover();
  return std::exchange(buffers_, {});
}

void DecodeState::give_back(StateBuffers buffers) {
  buffers_ = std::move(buffers);
}

int64_t DecodeState::nowhere() const {
  return model_->config().layers * own_rows() * std::max(capacity_, model::kSnapshots);
}

int64_t DecodeState::bytes() const {
  int64_t sum = 0;
  for (const model::StateStack& stack : stacks_) sum += stack.bytes({rows(), capacity_});
  return sum;
}

// Returns the same contents for buffers of another shape, with zeros elsewhere.
Tensor DecodeState::widened(size_t number, int64_t rows, int64_t capacity) const {
  const model::StateStack& stack = stacks_[number];
  Tensor made(stack.slot.dtype, stack.shape({rows, capacity}));
  std::memset(made.mutable_bytes(), 0, static_cast<size_t>(made.byte_size()));
  if (buffers_.empty() || buffers_[number] == nullptr) return made;
  const Tensor old = buffers_[number]->read();
  const int64_t count = own_rows(), own = rows / shares_,
                line = stack.slot.shape.count() * dtype_size(stack.slot.dtype);
  const int64_t from = stack.layer_rows({1, capacity_}),
                to = stack.layer_rows({1, capacity}); // rows of one request
  // Copies by share, layer and row.
  for (int64_t i = 0; i < shares_ * static_cast<int64_t>(stack.layers.size()) * count; ++i) {
    const int64_t layer = i / count, row = i % count;
    const int64_t share = layer / static_cast<int64_t>(stack.layers.size());
    if (rows_[static_cast<size_t>(row * shares_ + share)].spoiled) continue;
    std::memcpy(made.mutable_bytes() + (layer * own + row) * to * line,
                old.bytes() + i * from * line, static_cast<size_t>(from * line));
  }
  return made;
}

void DecodeState::resize(int64_t rows, int64_t capacity) {
  constexpr int64_t kMostRows = int64_t{1} << 30; // row numbers are i32, plus the rows of one layer
  const int64_t all =
      model_->config().layers * (rows / shares_) * std::max(capacity, model::kSnapshots);
  if (all >= kMostRows) {
    fail_with_hint(
        "hold fewer requests at a time, or shorter ones", Code::resource_exhausted,
        "a cache of {} requests of {} positions over {} layers has {} rows, {} are possible", rows,
        capacity, model_->config().layers, all, kMostRows);
  }
  StateBuffers made;
  for (size_t i = 0; i < stacks_.size(); ++i)
    made.push_back(model_->engine().upload_cut(widened(i, rows, capacity), false,
                                               stacks_[i].layout(model_->params())));
  buffers_ = std::move(made);
  rows_.resize(static_cast<size_t>(rows));
  capacity_ = capacity;
}

} // namespace dllm::decode
