#pragma once
// The admission checks the canvas and the settings of a new request, finds its method, and adds its
// slot.

#include "base/options.h"
#include "decode/adapters/adapter_table.h"
#include "decode/cache/decode_state.h"
#include "decode/method/method.h"
#include "decode/request/constraint.h"
#include "decode/request/request.h"
#include "decode/slot/slot_list.h"
#include "model/model.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace dllm::decode {

// Settings that a request may have in addition to its options.
struct OwnSettings {
  std::shared_ptr<const Constraint> constraint; // null: every token may be written
  // Options of kind "decoder" or "decoder:<policy>" for this request; not set: the decoder's own.
  // slots, trace, trace_bytes and on_change always are the decoder's.
  std::optional<Options> decoding = {};
};

class Admission {
public:
  // options and make are the arguments of Decoder. The references outlive the admission.
  Admission(std::shared_ptr<model::Model> model, const Options& options, PolicyMaker make,
            SlotList& slots, DecodeState& state);

  // The arguments and errors of Decoder::set_random_source and Decoder::add.
  void set_random_source(std::shared_ptr<const RandomSource> random_source);
  Slot& add(std::span<const int32_t> canvas, std::span<const uint8_t> fixed, const Options& options,
            const OwnSettings& own = {});

  // Returns whether add() would load an adapter for this request, which changes the model.
  bool loads(const Options& options, const OwnSettings& own = {}) const;

  // Returns the method of requests without decoding options of their own.
  const Method& method() const { return *method_; }

private:
  Options wanted_options(const Options& options, const OwnSettings& own) const;
  std::optional<model::PartList> load_parts(const Options& wanted);
  std::shared_ptr<Method> find_method(const std::string& text, bool is_named) const;
  std::shared_ptr<Method> method_of(const Options& options, const OwnSettings& own);
  Request read_canvas(const Method& method, std::span<const int32_t> canvas,
                      std::span<const uint8_t> fixed, const Options& options) const;
  RequestSettings settings_of(const Options& decoding, const Options& options) const;
  void warn_of_equal(const Slot& added, const Options& options);

  std::shared_ptr<model::Model> model_;
  PolicyMaker make_; // empty: the table of policies
  SlotList& slots_;
  DecodeState& state_;
  AdapterTable table_;
  std::shared_ptr<Method> method_;
  std::deque<std::shared_ptr<Method>> recent_; // of requests with options of their own, newest last
  int64_t methods_ = 1;                        // number of methods that were made
  std::shared_ptr<const RandomSource> random_source_;
  bool warned_of_equal_ = false; // the warning is logged once
};

} // namespace dllm::decode
