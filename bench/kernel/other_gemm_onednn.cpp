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

namespace {

using dnnl::memory;

memory::data_type type_of(dllm::DType dtype) {
  switch (dtype) {
  case dllm::DType::bf16: return memory::data_type::bf16;
  case dllm::DType::i8: return memory::data_type::s8;
  default: return memory::data_type::f32;
  }
}

} // namespace

OtherGemm::OtherGemm(dllm::DType dtype, const float* x, const float* w, float* y, int64_t m,
                     int64_t n, int64_t k, int threads)
    : state_(new State) {
  omp_set_num_threads(threads);
  State& s = *state_;
  const auto f32 = memory::data_type::f32, type = type_of(dtype);
  const memory::desc given_x({m, k}, f32, memory::format_tag::ab),
      given_w({k, n}, f32, memory::format_tag::ba), dx({m, k}, type, memory::format_tag::ab),
      dw({k, n}, type, memory::format_tag::any), dy({m, n}, f32, memory::format_tag::ab);
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc description(s.engine, dx, dw, dy);
#else
  const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(dx, dw, dy), s.engine);
#endif
  s.product = dnnl::matmul(description);
  const auto converted = [&](const memory::desc& from, const memory::desc& to, const float* data) {
    memory source(from, s.engine, const_cast<float*>(data)), made(to, s.engine);
    dnnl::reorder(source, made).execute(s.stream, source, made);
    s.stream.wait();
    return made;
  };
  s.x = converted(given_x, dx, x);
  s.w = converted(given_w, description.weights_desc(), w);
  s.y = memory(dy, s.engine, y);
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
bool OtherGemm::has(dllm::DType) {
  return true;
}
