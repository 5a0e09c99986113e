#include "other_gemm.h"

#include <dnnl.hpp>
#include <omp.h>

// The weights are packed once, into the format the library asks for.
struct OtherGemm::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::matmul product;
  dnnl::memory x, w, y;
};

OtherGemm::OtherGemm(const float* x, const float* w, float* y, int64_t m, int64_t n, int64_t k,
                     int threads)
    : state_(new State) {
  using dnnl::memory;
  omp_set_num_threads(threads);
  State& s = *state_;
  const auto f32 = memory::data_type::f32;
  const memory::desc dx({m, k}, f32, memory::format_tag::ab),
      dy({m, n}, f32, memory::format_tag::ab);
  const memory::desc plain({k, n}, f32, memory::format_tag::ba),
      any({k, n}, f32, memory::format_tag::any);
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc description(s.engine, dx, any, dy);
#else
  const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(dx, any, dy), s.engine);
#endif
  s.product = dnnl::matmul(description);
  s.x = memory(dx, s.engine, const_cast<float*>(x));
  s.y = memory(dy, s.engine, y);
  memory from(plain, s.engine, const_cast<float*>(w));
  s.w = memory(description.weights_desc(), s.engine);
  dnnl::reorder(from, s.w).execute(s.stream, from, s.w);
  s.stream.wait();
}
OtherGemm::~OtherGemm() = default;
void OtherGemm::run() {
  State& s = *state_;
  s.product.execute(s.stream, {{DNNL_ARG_SRC, s.x}, {DNNL_ARG_WEIGHTS, s.w}, {DNNL_ARG_DST, s.y}});
  s.stream.wait();
}
const char* OtherGemm::name() {
  return "oneDNN";
}
