#include "decode/policies/multi_block.h"

namespace dllm::decode {

Pipeline::Pipeline(const PipelineSettings& settings, const Slot& slot)
    : settings_(settings), origin_(slot.origin), length_(slot.block_length),
      canvas_(slot.length()) {
  for (int64_t block = 0; block < slot.block_count(); ++block) totals_.push_back(open(slot, block));
  activated_.assign(totals_.size(), 0);
  if (!activated_.empty()) activated_[0] = 1;
  created_ = std::min<int64_t>(1, count());
}

double Pipeline::progress(const Slot& slot, int64_t block) const {
  const int64_t total = totals_[static_cast<size_t>(block)];
  if (total == 0) return 1;
  return 1.0 - static_cast<double>(open(slot, block)) / static_cast<double>(total);
}

void Pipeline::create(const Slot& slot) {
  const int64_t last = created_ - 1;
  if (created_ >= count()) return;
  const double done = progress(slot, last);
  if (done < settings_.add && open(slot, last) > 0) return;
  activated_[static_cast<size_t>(created_)] = done >= settings_.activate_new ? 1 : 0;
  ++created_;
}

void Pipeline::advance(const Slot& slot) {
  do {
    for (int64_t block = 1; block < created_; ++block) {
      if (progress(slot, block - 1) >= settings_.activate)
        activated_[static_cast<size_t>(block)] = 1;
    }
    create(slot);
    active_end_ = origin_;
    for (int64_t block = 0; block < created_; ++block) {
      if (open(slot, block) > 0 || activated(block)) active_end_ = end(block);
    }
    // A block whose positions were all given is passed by.
  } while (created_ < count() && slot.open_count(origin_, active_end_) == 0);
}

int64_t Pipeline::leading(const Slot& slot) const {
  for (int64_t block = 0; block < created_; ++block) {
    if (activated(block) && open(slot, block) > 0) return block;
  }
  return -1;
}

} // namespace dllm::decode
