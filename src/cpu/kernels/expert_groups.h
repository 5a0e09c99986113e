#pragma once
// The common part of products with one matrix per row. Pairs (row, choice) are sorted by expert, so
// the rows of an expert are neighbours. The header also has the panels of the experts.

#include "cpu/gemm/gemm.h"
#include "cpu/kernel.h"
#include "cpu/kernels/weight.h"

namespace dllm::cpu {

// The pairs are rows x choices, and pair p belongs to row p / choices. A pair whose expert does not
// exist is in no group.
struct ExpertShape {
  int64_t rows, choices, experts;
  int64_t pairs() const { return rows * choices; }
};

class ExpertGroups {
public:
  // Adds the groups to a kernel's scratch and returns their offset.
  static int64_t add(const ExpertShape& shape, ScratchLayout& layout) {
    return layout.add(4 * (shape.pairs() + 2 * shape.experts + 1));
  }
  // Sorts the pairs; pairs of one expert keep their order. `scratch` is the part that add() added.
  ExpertGroups(const ExpertShape& shape, const int32_t* chosen, std::byte* scratch);

  const ExpertShape& shape() const { return shape_; }
  int64_t begin(int64_t expert) const { return begins_[expert]; }
  int64_t size(int64_t expert) const { return begins_[expert + 1] - begins_[expert]; }
  int64_t active() const { return active_; }                  // number of experts with rows
  int64_t place(int64_t pair) const { return places_[pair]; } // index when sorted, or -1

  // Copies from[pair / repeat] (n) of each pair to its place in `to` (sorted pairs, n).
  void gather(const float* from, int64_t n, int64_t repeat, float* to, const Workers& pool) const;
  // Calls f(expert, panel_begin, panel_end) for every expert with rows. Where there are few active
  // experts for the threads, the panels of an expert are cut. Runs on the calling thread when
  // `flops` are too few for threads.
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

// A stack of weights (experts, out, in) as an operand. If the engine keeps its packed form, that
// form is used. Otherwise each call packs the matrices of experts with rows.
class ExpertWeights {
public:
  ExpertWeights(const CompileInfo& info, size_t input, Form form, ScratchLayout& layout);

  FormSet wants() const { return kept_ ? kept_form(stored_) : kPlain; }
  int64_t experts() const { return experts_; }
  int64_t out() const { return out_; }
  int64_t in() const { return in_; }
  // Returns the panels of all experts, expert after expert. It packs them where necessary.
  const std::byte* panels(const KernelCall& call, const ExpertGroups& groups) const;
  // Returns the product of one expert with its panels, n and k set.
  Gemm gemm(const std::byte* panels, int64_t expert) const;

private:
  size_t input_;
  bool kept_;
  int64_t experts_, out_, in_;
  PanelForm stored_;     // form that is kept, or packed in a call
  Gemm product_;         // of one expert, without operands and work space
  int64_t scratch_ = -1; // offset of the packed form when none is kept
};

// Runs the products of all experts: rows of `a` (sorted pairs, k) times the matrices of their
// experts become rows of `c` (sorted pairs, n).
class ExpertProducts {
public:
  ExpertProducts(const ExpertWeights& weights, const ExpertShape& shape, ScratchLayout& layout);
  // `scale` is (experts, n), or null.
  void run(const KernelCall& call, const ExpertGroups& groups, const float* a, const float* scale,
           float* c) const;

private:
  Gemm product(const std::byte* panels) const; // of the first expert

  ExpertWeights weights_;
  ExpertShape shape_;
  int64_t rounded_, expanded_; // offsets of work space
};

} // namespace dllm::cpu
