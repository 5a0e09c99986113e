// A RowIndex chooses the rows of a split and makes sequences of them.

#include "text/data/loader.h"

#include <algorithm>
#include <cstdint>
#include <span>

namespace dllm::text {

bool is_held_out(const TokenRow& row, double fraction) {
  constexpr uint64_t kSplitSeed = 0x5350'4C49'5431u; // fixed: a split never changes
  const uint64_t hash = hash_bytes(row.ids.data(), row.ids.size_bytes(), kSplitSeed);
  return static_cast<double>(hash >> 11) * 0x1p-53 < fraction;
}

RowIndex::RowIndex(std::shared_ptr<const Dataset> data, const RowIndexSettings& settings)
    : data_(std::move(data)), settings_(settings) {
  const auto take = [&](int64_t index) {
    const int64_t count = data_->row_length(index);
    if (!settings_.pack && settings_.truncate == Truncate::drop && count > settings_.length) {
      ++dropped_;
      return;
    }
    rows_.push_back(index);
    if (settings_.pack) begins_.push_back(tokens_);
    tokens_ += count;
  };
  if (settings_.split == Split::all) {
    for (int64_t i = 0; i < data_->size(); ++i) take(i);
  } else {
    data_->scan([&](int64_t index, const TokenRow& row) {
      const bool held_out = is_held_out(row, settings_.split_fraction);
      if (held_out == (settings_.split == Split::held_out)) take(index);
    });
  }
  sequences_ = static_cast<int64_t>(rows_.size());
  if (settings_.pack) {
    begins_.push_back(tokens_);
    sequences_ = (tokens_ + (settings_.drop_tail ? 0 : settings_.length - 1)) / settings_.length;
  }
}

namespace {

// Copies row tokens [from, from + count) to `at`.
void copy_part(const TokenRow& row, size_t from, size_t count, size_t at, int32_t segment,
               std::span<int32_t> ids, std::span<uint8_t> keep, std::span<int32_t> segments) {
  std::copy_n(row.ids.begin() + static_cast<std::ptrdiff_t>(from), count,
              ids.begin() + static_cast<std::ptrdiff_t>(at));
  for (size_t i = 0; i < count; ++i) {
    keep[at + i] = row.keep.empty() ? 0 : row.keep[from + i];
    segments[at + i] = segment;
  }
}

} // namespace

Example RowIndex::example(int64_t index, const Trajectories* trajectories) const {
  const int64_t number = rows_[static_cast<size_t>(index)];
  const int64_t length = data_->row_length(number);
  const int64_t count = std::min(length, settings_.length);
  const int64_t from = settings_.truncate == Truncate::left ? length - count : 0;
  const TokenRow row = data_->part(data_->row_begin(number) + from, count);
  Example made;
  made.ids.assign(row.ids.begin(), row.ids.end());
  made.keep.assign(row.keep.begin(), row.keep.end());
  made.keep.resize(made.ids.size(), 0);
  if (trajectories != nullptr) made.trajectory = trajectories->part(number, from, count);
  return made;
}

int64_t RowIndex::key(int64_t index) const {
  return row_key(data_->row(rows_[static_cast<size_t>(index)]).ids);
}

void RowIndex::fill(int64_t index, std::span<int32_t> ids, std::span<uint8_t> keep,
                    std::span<int32_t> segments) const {
  const int64_t begin = index * settings_.length;
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), begin);
  auto place = static_cast<size_t>(after - begins_.begin()) - 1; // the row that holds token `begin`
  size_t from = static_cast<size_t>(begin - begins_[place]);
  size_t at = 0;
  int32_t segment = 0;
  // Consecutive rows of the data are stored without gaps, so one read returns several rows.
  TokenRow held;
  int64_t held_begin = 0, held_end = 0;
  for (; at < ids.size() && place < rows_.size(); ++place, from = 0) {
    const int64_t row = rows_[place];
    const auto length = static_cast<size_t>(data_->row_length(row));
    const bool goes_on = segment > 0 && !data_->row_starts(row) && row == rows_[place - 1] + 1;
    if (!goes_on && length > from) ++segment;
    const size_t count = std::min(length - from, ids.size() - at);
    const int64_t first = data_->row_begin(row) + static_cast<int64_t>(from);
    if (first < held_begin || first + static_cast<int64_t>(count) > held_end) {
      held_begin = first;
      held_end = std::min(first + static_cast<int64_t>(ids.size() - at), data_->tokens());
      held = data_->part(held_begin, held_end - held_begin);
    }
    copy_part(held, static_cast<size_t>(first - held_begin), count, at, segment, ids, keep,
              segments);
    at += count;
  }
  for (; at < ids.size(); ++at) {
    ids[at] = settings_.pad;
    keep[at] = 1;
    segments[at] = 0;
  }
}

int64_t RowIndex::count_silent() const {
  if (!data_->has_keep()) return 0;
  const auto learns = [](uint8_t given) { return given == 0; };
  std::vector<bool> taught(static_cast<size_t>(sequences_));
  size_t place = 0; // of rows_
  data_->scan([&](int64_t index, const TokenRow& row) {
    if (place >= rows_.size() || rows_[place] != index) return;
    const auto count = static_cast<int64_t>(row.ids.size());
    const size_t own = place++;
    if (settings_.pack) {
      const int64_t begin = begins_[own];
      for (int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<size_t>((begin + i) / settings_.length);
        if (at < taught.size() && (row.keep.empty() || learns(row.keep[static_cast<size_t>(i)])))
          taught[at] = true;
      }
      return;
    }
    const int64_t used = std::min(count, settings_.length);
    const int64_t from = settings_.truncate == Truncate::left ? count - used : 0;
    const auto kept = row.keep.subspan(row.keep.empty() ? 0 : static_cast<size_t>(from),
                                       row.keep.empty() ? 0 : static_cast<size_t>(used));
    taught[own] = row.keep.empty() || std::any_of(kept.begin(), kept.end(), learns);
  });
  return std::count(taught.begin(), taught.end(), false);
}

} // namespace dllm::text
