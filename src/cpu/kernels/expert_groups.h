#pragma once
// What the products with one matrix per row share: pairs (row, choice) brought into the order of
// their experts, so that each expert's rows lie together, and the experts' panels.

#include "cpu/gemm/gemm.h"
#include "cpu/kernel.h"
#include "cpu/kernels/weight.h"

namespace dllm::cpu {

// pairs = rows x choices; pair p belongs to row p / choices. A pair whose expert does not exist
// belongs to no group.
struct ExpertShape {
  int64_t rows, choices, experts;
  int64_t pairs() const { return rows * choices; }
};

class ExpertGroups {
public:
  // Part of a kernel's scratch.
  static int64_t add(const ExpertShape& shape, ScratchLayout& layout) {
    return layout.add(4 * (shape.pairs() + 2 * shape.experts + 1));
  }
  // Sorts; `scratch` is the part made by add(). Pairs of one expert keep their order.
  ExpertGroups(const ExpertShape& shape, const int32_t* chosen, std::byte* scratch);

  const ExpertShape& shape() const { return shape_; }
  int64_t begin(int64_t expert) const { return begins_[expert]; }
  int64_t size(int64_t expert) const { return begins_[expert + 1] - begins_[expert]; }
  int64_t active() const { return active_; }                  // experts that have rows
  int64_t place(int64_t pair) const { return places_[pair]; } // among the sorted pairs, or -1

  // to (sorted pairs, n) = from[pair / repeat].
  void gather(const float* from, int64_t n, int64_t repeat, float* to, const Workers& pool) const;
  // f(expert, panel_begin, panel_end) for every expert that has rows, cut over `panels` where there
  // are fewer experts than threads; inline when `flops` of work are not worth a thread.
  template <class F>
  void each(const Workers& pool, double flops, int64_t panels, const F& f) const {
    const Workers used = flops < 2e6 ? pool.serial() : pool;
    const int64_t wanted = used.pool == nullptr ? 1 : 3 * used.threads();
    const int64_t most = std::max<int64_t>(1, panels / kLeastPanels);
    const int64_t cuts = std::clamp<int64_t>(wanted / std::max<int64_t>(1, active_), 1, most);
    parallel(used, shape_.experts * cuts, [&](int64_t chunk) {
      const int64_t expert = chunk / cuts, cut = chunk % cuts;
      if (size(expert) > 0) f(expert, panels * cut / cuts, panels * (cut + 1) / cuts);
    });
  }

private:
  static constexpr int64_t kLeastPanels = 4;
  ExpertShape shape_;
  int32_t* places_; // (pairs)
  int32_t* begins_; // (experts + 1)
  int64_t active_ = 0;
};

// A stack of weights (experts, out, in) as an operand: packed for good when the engine keeps its
// forms, else the matrices that have rows are packed per call.
class ExpertWeights {
public:
  ExpertWeights(const CompileInfo& info, size_t input, Form form, ScratchLayout& layout);

  FormSet wants() const { return kept_ ? kept_form(form_, stored_.format) : kPlain; }
  int64_t experts() const { return experts_; }
  int64_t out() const { return out_; }
  int64_t in() const { return in_; }
  // Panels of all experts, one after the other.
  const std::byte* panels(const KernelCall& call, const ExpertGroups& groups) const;
  // b, its type, n, k of one expert's product.
  Gemm gemm(const std::byte* panels, int64_t expert) const;

private:
  size_t input_;
  Form form_;
  bool kept_;
  int64_t experts_, out_, in_;
  PanelForm stored_;        // as they are kept, or packed in a call
  PanelForm panels_;        // as the product reads them
  int64_t scratch_ = -1;    // packed here when no form is kept
  int64_t transposed_ = -1; // blocks, transposed: f32 panels
};

} // namespace dllm::cpu
