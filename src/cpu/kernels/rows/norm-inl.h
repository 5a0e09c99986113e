// Rows of rms_norm, layer_norm and their gradients. The header is included once per target.

#if defined(DLLM_CPU_KERNELS_ROWS_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DLLM_CPU_KERNELS_ROWS_NORM_INL_H_
#undef DLLM_CPU_KERNELS_ROWS_NORM_INL_H_
#else
#define DLLM_CPU_KERNELS_ROWS_NORM_INL_H_
#endif

#include "cpu/kernels/rows/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu::HWY_NAMESPACE {

inline float InverseRms(const float* x, int64_t n, float eps) {
  const float sum = Sum16(n, [x](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    return hn::Mul(v, v);
  });
  return 1.0f / std::sqrt(sum / static_cast<float>(n) + eps);
}

void RmsNorm(const float* x, const float* weight, int64_t n, float eps, float* y) {
  const float inverse = InverseRms(x, n, eps);
  Each(n, [=](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, inverse));
    hn::StoreU(hn::Mul(v, LoadOr(d, weight, i, 1.0f)), d, y + i);
  });
}

// Computes dx = r g - x r^3 / n sum(g x) with r = 1 / rms and g = dy w, and dw = sum over rows of
// dy x r.
void RmsNormGrad(const float* x, const float* dy, const float* weight, int64_t n, float eps,
                 float* dx, float* dweight_sum) {
  const float r = InverseRms(x, n, eps);
  const float inner = Sum16(n, [=](auto d, int64_t i) HWY_ATTR {
    const auto g = hn::Mul(hn::LoadU(d, dy + i), LoadOr(d, weight, i, 1.0f));
    return hn::Mul(g, hn::LoadU(d, x + i));
  });
  const float pull = -(r * r * r * (inner / static_cast<float>(n)));
  Each(n, [=](auto d, int64_t i) HWY_ATTR {
    const auto vx = hn::LoadU(d, x + i), vdy = hn::LoadU(d, dy + i);
    const auto g = hn::Mul(vdy, LoadOr(d, weight, i, 1.0f));
    if (dweight_sum != nullptr) {
      const auto normal = hn::Mul(vx, hn::Set(d, r));
      hn::StoreU(Fma(vdy, normal, hn::LoadU(d, dweight_sum + i)), d, dweight_sum + i);
    }
    hn::StoreU(Fma(vx, hn::Set(d, pull), hn::Mul(g, hn::Set(d, r))), d, dx + i);
  });
}

struct Moments {
  float mean, inverse; // 1 / sqrt(variance + eps)
};

inline Moments RowMoments(const float* x, int64_t n, float eps) {
  const float mean = Sum16(n, [x](auto d, int64_t i) HWY_ATTR { return hn::LoadU(d, x + i); }) /
                     static_cast<float>(n);
  const float squares = Sum16(n, [=](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
    return hn::Mul(v, v);
  });
  return {mean, 1.0f / std::sqrt(squares / static_cast<float>(n) + eps)};
}

void LayerNorm(const float* x, const float* weight, const float* bias, int64_t n, float eps,
               float* y) {
  const Moments m = RowMoments(x, n, eps);
  Each(n, [=](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, m.mean)), hn::Set(d, m.inverse));
    hn::StoreU(hn::Add(hn::Mul(v, LoadOr(d, weight, i, 1.0f)), LoadOr(d, bias, i, 0.0f)), d, y + i);
  });
}

// Computes dx = r (g - mean(g) - h mean(g h)) with r = 1 / sqrt(variance + eps), h = (x - mean) r
// and g = dy w. Over the rows, dw = sum dy h and db = sum dy.
void LayerNormGrad(const float* x, const float* dy, const float* weight, int64_t n, float eps,
                   float* dx, float* dweight_sum, float* dbias_sum) {
  const Moments m = RowMoments(x, n, eps);
  const float count = static_cast<float>(n);
  const auto gradient = [=](auto d, int64_t i) HWY_ATTR {
    return hn::Mul(hn::LoadU(d, dy + i), LoadOr(d, weight, i, 1.0f));
  };
  const auto normal = [=](auto d, int64_t i) HWY_ATTR {
    return hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, m.mean)), hn::Set(d, m.inverse));
  };
  const float mean_g = Sum16(n, gradient) / count;
  const float mean_gh =
      Sum16(n, [=](auto d, int64_t i) HWY_ATTR { return hn::Mul(gradient(d, i), normal(d, i)); }) /
      count;
  Each(n, [=](auto d, int64_t i) HWY_ATTR {
    const auto h = normal(d, i), g = gradient(d, i), vdy = hn::LoadU(d, dy + i);
    if (dweight_sum != nullptr)
      hn::StoreU(Fma(vdy, h, hn::LoadU(d, dweight_sum + i)), d, dweight_sum + i);
    if (dbias_sum != nullptr)
      hn::StoreU(hn::Add(vdy, hn::LoadU(d, dbias_sum + i)), d, dbias_sum + i);
    const auto centred = Fnma(h, hn::Set(d, mean_gh), hn::Sub(g, hn::Set(d, mean_g)));
    hn::StoreU(hn::Mul(centred, hn::Set(d, m.inverse)), d, dx + i);
  });
}

} // namespace dllm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
