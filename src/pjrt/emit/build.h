#pragma once
// Short names for the operations of StableHLO that emitters use all the time. Binary functions take
// operands of one type; `like` versions make the number they need themselves.

#include "pjrt/emit/writer.h"

namespace dllm::pjrt::hlo::build {

enum class Order { eq, ne, lt, le, gt, ge };

Ssa unary(Writer& w, std::string_view name, const Ssa& x);                // "negate"
Ssa binary(Writer& w, std::string_view name, const Ssa& x, const Ssa& y); // "add"
Ssa number_like(Writer& w, const Ssa& x, double value);                   // splat of x's type
Ssa with(Writer& w, std::string_view name, const Ssa& x, double value);   // x op value

Ssa compare(Writer& w, Order order, const Ssa& x, const Ssa& y); // i1
Ssa compare_with(Writer& w, Order order, const Ssa& x, double value);
Ssa is_nan(Writer& w, const Ssa& x);
Ssa select(Writer& w, const Ssa& predicate, const Ssa& yes, const Ssa& no);

Ssa convert(Writer& w, const Ssa& x, Element element); // x itself when it is that already
Ssa bitcast(Writer& w, const Ssa& x, Element element);

Ssa iota(Writer& w, const Type& type, int64_t axis);
Ssa reshape(Writer& w, const Ssa& x, const Shape& shape); // x itself when it has it already
Ssa broadcast(Writer& w, const Ssa& x, const Shape& shape, const std::vector<int64_t>& axes);
Ssa slice(Writer& w, const Ssa& x, const std::vector<int64_t>& begin,
          const std::vector<int64_t>& end);
Ssa slice_axis(Writer& w, const Ssa& x, int64_t axis, int64_t begin, int64_t end);
Ssa pad(Writer& w, const Ssa& x, const Ssa& fill, const std::vector<int64_t>& low,
        const std::vector<int64_t>& high);
// `name` joins two elements; init: the bits it starts from.
Ssa reduce(Writer& w, std::string_view name, const Ssa& x, uint64_t init,
           const std::vector<int64_t>& axes);
// The region {(a, b): a op b} of reductions, scatters and collectives.
Region joining(Writer& w, std::string_view name, Element element);

} // namespace dllm::pjrt::hlo::build
