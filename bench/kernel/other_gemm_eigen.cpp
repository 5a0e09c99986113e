#include "other_gemm.h"

#include <Eigen/Core>

namespace {
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
}

struct OtherGemm::State {
  Eigen::Map<const Matrix> x, w;
  Eigen::Map<Matrix> y;
};

OtherGemm::OtherGemm(dllm::DType, const float* x, const float* w, float* y, int64_t m, int64_t n,
                     int64_t k, int threads)
    : state_(new State{{x, m, k}, {w, n, k}, {y, m, n}}) {
  Eigen::setNbThreads(threads);
}
OtherGemm::~OtherGemm() = default;
void OtherGemm::run() {
  state_->y.noalias() = state_->x * state_->w.transpose();
}
const char* OtherGemm::name() {
  return "Eigen";
}
bool OtherGemm::has(dllm::DType dtype) {
  return dtype == dllm::DType::f32;
}
