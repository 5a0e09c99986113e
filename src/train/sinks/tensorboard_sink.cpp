#include "train/sinks/tensorboard_sink.h"

#include "base/files.h"
#include "train/sinks/event_metrics.h"
#include "train/sinks/record_file.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <unistd.h>

namespace dllm::train {
namespace {

// ---- checksums of TFRecord files: CRC-32C, reflected polynomial 0x82F63B78 (RFC 3720, B.4) ----

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value % 2 != 0 ? 0x82F63B78u : 0);
    table[i] = value;
  }
  return table;
}

uint32_t crc32c(std::string_view data) {
  static constexpr std::array<uint32_t, 256> kTable = make_table();
  uint32_t sum = ~0u;
  for (const char byte : data) sum = kTable[(sum ^ static_cast<uint8_t>(byte)) & 0xFF] ^ (sum >> 8);
  return ~sum;
}

template <class T> std::string little_endian(T value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof value; ++i)
    bytes += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i) & 0xFF);
  return bytes;
}

// A file of checksums would have itself as data, so the format turns and shifts each sum.
std::string masked_sum(std::string_view data) {
  return little_endian<uint32_t>(std::rotr(crc32c(data), 15) + 0xA282EAD8u);
}

// ---- protocol buffers: the fields of tensorflow/core/util/event.proto and summary.proto ----

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

enum Wire { kVarint = 0, kEight = 1, kBytes = 2, kFour = 5 };

std::string field(int number, Wire wire) {
  return varint(static_cast<uint64_t>(number) << 3 | wire);
}
std::string whole_field(int number, int64_t value) {
  return field(number, kVarint) + varint(static_cast<uint64_t>(value));
}
std::string bytes_field(int number, const std::string& bytes) {
  return field(number, kBytes) + varint(bytes.size()) + bytes;
}

// Returns the fields that every event has: wall_time and step.
std::string event_fields(int64_t step) {
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return field(1, kEight) + little_endian(std::bit_cast<uint64_t>(now)) + whole_field(2, step);
}

std::string version_event() {
  return event_fields(0) + bytes_field(3, "brain.Event:2");
}

// The start of a session: TensorBoard drops the numbers of this step and of later ones.
std::string restart_event(int64_t step) {
  constexpr int64_t kStart = 1;
  return event_fields(step) + bytes_field(7, whole_field(1, kStart));
}

std::string summary_event(const Event& event) {
  std::string values;
  for (const EventMetric& metric : event_metrics()) {
    const double value = number_of(event, metric.key);
    if (metric.event != event.kind() || metric.key == "step" || event.find(metric.key) == nullptr)
      continue;
    values += bytes_field(1, bytes_field(1, metric.path()) + field(2, kFour) +
                                 little_endian(std::bit_cast<uint32_t>(static_cast<float>(value))));
  }
  return event_fields(static_cast<int64_t>(number_of(event, "step"))) + bytes_field(5, values);
}

// ---- the file ----

constexpr std::string_view kPrefix = "events.out.tfevents.", kEnding = ".dllm";

// TensorBoard reads the files of a folder in the order of their names, which begin with the time.
// append = false removes the files of earlier sinks, and none of another program.
std::string new_file(const std::string& folder, bool append) {
  make_directories(folder);
  if (!append) {
    for (const std::string& name : list_directory(folder)) {
      const bool is_own = name.starts_with(kPrefix) && name.ends_with(kEnding);
      if (is_own) remove_all(join_path(folder, name));
    }
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::now().time_since_epoch());
  return join_path(folder, fmt::format("{}{:010}.{}.{}{}", kPrefix, seconds.count(), ::getpid(),
                                       unique_word(), kEnding));
}

class TensorboardSink final : public Sink {
public:
  TensorboardSink(const std::string& folder, int64_t every, bool append)
      : every_(every), file_("tensorboard", new_file(folder, append), true) {
    file_.write(framed_record(version_event()));
  }

  void write(const Event& event, const Progress&) override {
    const bool is_step = event.kind() == EventKind::train_step;
    if (!is_step && event.kind() != EventKind::eval) return;
    if (is_step && count_++ % every_ != 0) return;
    file_.write(framed_record(summary_event(event)));
  }
  void rewind(int64_t step) override { file_.write(framed_record(restart_event(step + 1))); }
  void finish() override { file_.finish(); }

private:
  int64_t every_;
  int64_t count_ = 0;
  RecordFile file_;
};

} // namespace

std::string framed_record(std::string_view data) {
  const std::string length = little_endian<uint64_t>(data.size());
  return length + masked_sum(length) + std::string(data) + masked_sum(data);
}

std::unique_ptr<Sink> make_tensorboard_sink(const std::string& folder, const Options& options) {
  return std::make_unique<TensorboardSink>(folder, options.i64("every"), options.boolean("append"));
}

} // namespace dllm::train
