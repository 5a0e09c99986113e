// Reads as much of a serialised CompileOptionsProto as devices need: executable_build_options (3)
// with num_replicas (4), num_partitions (5) and device_assignment (9): computation_devices (3),
// their ids (1).

#include "signature.h"

namespace fake {
namespace {

struct Reader {
  const std::string& bytes;
  size_t at = 0;
  bool good = true;

  bool more() const { return good && at < bytes.size(); }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at >= bytes.size()) break;
      const auto byte = static_cast<uint8_t>(bytes[at++]);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    good = false;
    return 0;
  }
  std::string text(uint64_t size) {
    if (size > bytes.size() - at) {
      good = false;
      return "";
    }
    at += size;
    return bytes.substr(at - size, size);
  }
};

// Calls field(number, value, content) for each field of a message.
template <class F> bool each_field(const std::string& bytes, F&& field) {
  Reader reader{bytes};
  while (reader.more()) {
    const uint64_t tag = reader.varint();
    const uint64_t number = tag >> 3;
    if (number == 0) return false;
    switch (tag & 7) {
    case 0: field(number, reader.varint(), std::string()); break;
    case 1: reader.text(8); break;
    case 2: field(number, 0, reader.text(reader.varint())); break;
    case 5: reader.text(4); break;
    default: return false;
    }
  }
  return reader.good;
}

bool read_ids(const std::string& packed, std::vector<int>* ids) {
  Reader reader{packed};
  while (reader.more()) ids->push_back(static_cast<int>(reader.varint()));
  return reader.good;
}

bool read_assignment(const std::string& bytes, Compiled* program) {
  bool good = true;
  const auto devices = [&](uint64_t number, uint64_t id, const std::string& packed) {
    if (number == 1 && packed.empty()) program->devices.push_back(static_cast<int>(id));
    if (number == 1) good = read_ids(packed, &program->devices) && good;
  };
  const auto field = [&](uint64_t number, uint64_t, const std::string& content) {
    if (number == 3) good = each_field(content, devices) && good;
  };
  return each_field(bytes, field) && good;
}

bool read_build_options(const std::string& bytes, Compiled* program) {
  bool good = true;
  const auto field = [&](uint64_t number, uint64_t value, const std::string& content) {
    if (number == 4) program->replicas = static_cast<int64_t>(value);
    if (number == 5) program->partitions = static_cast<int64_t>(value);
    if (number == 9) good = read_assignment(content, program) && good;
  };
  return each_field(bytes, field) && good;
}

} // namespace

bool read_options(const std::string& bytes, Compiled* program, std::string* why_not) {
  program->options = bytes;
  bool good = true;
  const auto field = [&](uint64_t number, uint64_t, const std::string& content) {
    if (number == 3) good = read_build_options(content, program) && good;
  };
  good = each_field(bytes, field) && good;
  if (!good) *why_not = "the compile options are no CompileOptionsProto";
  if (good && program->partitions != 1) {
    *why_not = "the fake plugin has replicas only";
    good = false;
  }
  if (good && !program->devices.empty() &&
      program->devices.size() != static_cast<size_t>(program->replicas)) {
    *why_not = "the device assignment has not one device per replica";
    good = false;
  }
  return good;
}

} // namespace fake
