#pragma once
// A read-only run of bytes that keeps its owner (a mapped file, a host's buffer, a string) alive.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace dllm {

class Bytes {
public:
  Bytes() = default;
  Bytes(const void* data, size_t size, std::shared_ptr<const void> owner)
      : data_(static_cast<const std::byte*>(data)), size_(size), owner_(std::move(owner)) {}

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // REQUIRES: begin + size <= this->size(). The part shares the owner.
  Bytes part(size_t begin, size_t size) const { return {data_ + begin, size, owner_}; }

private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::shared_ptr<const void> owner_;
};

} // namespace dllm
