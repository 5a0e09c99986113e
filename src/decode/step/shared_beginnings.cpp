#include "decode/step/shared_beginnings.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace dllm::decode {
namespace {

constexpr int64_t kLeastSaved = 64; // positions; below, a pass of its own costs about as much

// Whether the pass is one over the canvas as it is, which can be cut.
bool is_plain(const PassRequest& pass) {
  return pass.cached && pass.ids.empty() && pass.order.empty() && pass.together < 0 &&
         pass.kind != PassKind::commit;
}

} // namespace

bool SharedBeginnings::takes(Slot& slot, const std::vector<Slot*>& planned) {
  Slot* leader = nullptr;
  int64_t edge = 0;
  for (Slot* other : planned) {
    if (!is_plain(other->pass())) continue;
    const int64_t shared = slot.shared_after(*other);
    if (shared > std::max(edge, other->pass().begin)) {
      edge = shared;
      leader = other;
    }
  }
  if (leader == nullptr) return false;
  auto group = std::ranges::find(groups_, leader, &Group::leader);
  if (group == groups_.end()) group = groups_.insert(groups_.end(), {leader, {}, edge});
  group->followers.push_back(&slot);
  group->edge = std::min(group->edge, edge);
  return true;
}

std::vector<Slot*> SharedBeginnings::drop_small() {
  std::vector<Slot*> dropped;
  std::erase_if(groups_, [&](const Group& group) {
    if (group.edge * std::ssize(group.followers) >= kLeastSaved) return false;
    std::ranges::copy(group.followers, std::back_inserter(dropped));
    return true;
  });
  return dropped;
}

std::vector<Slot*> SharedBeginnings::cut_passes() {
  std::vector<Slot*> leaders;
  for (const Group& group : groups_) {
    PassRequest pass = group.leader->pass();
    if (pass.kind != PassKind::step) continue; // it fills the cache as it is
    pass.positions.clear();
    pass.soft.clear();
    pass.end = pass.final_end = group.edge;
    group.leader->set_pass(std::move(pass));
    leaders.push_back(group.leader);
  }
  return leaders;
}

std::vector<Slot*> SharedBeginnings::followers() const {
  std::vector<Slot*> all;
  for (const Group& group : groups_) std::ranges::copy(group.followers, std::back_inserter(all));
  return all;
}

} // namespace dllm::decode
