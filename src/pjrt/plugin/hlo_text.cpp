// Reads HLO modules from protobuf's wire format and writes them as text.

#include "base/error.h"
#include "pjrt/plugin/compile.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

namespace dllm::pjrt {

// Reads the fields of a protobuf message in their order. The caller skips unknown fields:
//   for (WireReader reader(bytes); reader.next();)
//     if (reader.field() == 1) use(reader.bytes());
class WireReader {
public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  // Moves to the next field and returns false at the end. Fails with data_loss for bytes that are
  // not a message.
  bool next() {
    if (rest_.empty()) return false;
    const uint64_t tag = varint();
    field_ = static_cast<int64_t>(tag >> 3);
    bytes_ = {};
    number_ = 0;
    switch (tag & 7) {
    case 0: number_ = varint(); return true;
    case 1: bytes_ = take(8); return true;
    case 2: bytes_ = take(varint()); return true;
    case 5: bytes_ = take(4); return true;
    default: fail(Code::data_loss, "wire type {} in a message of a plugin", tag & 7);
    }
  }

  int64_t field() const { return field_; }
  int64_t number() const { return static_cast<int64_t>(number_); }
  // Returns the content of a field that is a message, a text or packed numbers.
  std::string_view bytes() const { return bytes_; }

  // Calls use(number) for each repeated number, which are packed into bytes or one field each.
  template <class F> void numbers(F&& use) const {
    if (bytes_.empty()) return use(number());
    for (WireReader packed(bytes_); !packed.rest_.empty();) {
      use(static_cast<int64_t>(packed.varint()));
    }
  }

private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    fail(Code::data_loss, "a message of a plugin ends inside a number");
  }
  std::string_view take(uint64_t size) {
    if (size > rest_.size()) {
      fail(Code::data_loss, "a field of {} bytes in a message of a plugin that has {} left", size,
           rest_.size());
    }
    const std::string_view result = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return result;
  }

  std::string_view rest_, bytes_;
  int64_t field_ = 0;
  uint64_t number_ = 0;
};

namespace {

// Returns the name of one of XLA's element types.
const char* element_name(int64_t type) {
  constexpr std::array kNames = {"invalid", "pred",   "s8",       "s16", "s32",  "s64",
                                 "u8",      "u16",    "u32",      "u64", "f16",  "f32",
                                 "f64",     "tuple",  "opaque",   "c64", "bf16", "token",
                                 "c128",    "f8e5m2", "f8e4m3fn", "s4",  "u4"};
  return type >= 0 && type < static_cast<int64_t>(kNames.size()) ? kNames[static_cast<size_t>(type)]
                                                                 : "other";
}

auto into(std::vector<int64_t>& list) {
  return [&list](int64_t number) { list.push_back(number); };
}

std::string joined(const std::vector<int64_t>& numbers) {
  std::string text;
  for (int64_t number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

// The most levels of nested tuples. Compilers write one or two.
constexpr int kDeepestShape = 64;

// Fields of ShapeProto: element_type 2, dimensions 3, tuple_shapes 4, layout 5 (minor_to_major 1).
std::string shape_text(std::string_view bytes, int depth = 0) {
  if (depth > kDeepestShape)
    fail(Code::data_loss, "a shape in a message of a plugin nests deeper than {}", kDeepestShape);
  int64_t type = 0;
  std::vector<int64_t> dimensions, order;
  std::string tuple;
  for (WireReader shape(bytes); shape.next();) {
    if (shape.field() == 2) type = shape.number();
    if (shape.field() == 3) shape.numbers(into(dimensions));
    if (shape.field() == 4)
      tuple += (tuple.empty() ? "" : ", ") + shape_text(shape.bytes(), depth + 1);
    if (shape.field() != 5) continue;
    for (WireReader layout(shape.bytes()); layout.next();) {
      if (layout.field() == 1) layout.numbers(into(order));
    }
  }
  constexpr int64_t kTuple = 13;
  if (type == kTuple) return "(" + tuple + ")";
  const std::string laid = order.empty() ? "" : "{" + joined(order) + "}";
  return std::string(element_name(type)) + "[" + joined(dimensions) + "]" + laid;
}

// Returns one group, {0,1}, of a message with a list (ReplicaGroup, field 1) or a pair
// (SourceTarget, fields 1 and 2).
std::string group_text(std::string_view bytes) {
  std::vector<int64_t> members;
  for (WireReader group(bytes); group.next();) {
    group.numbers(into(members));
  }
  return "{" + joined(members) + "}";
}

// Fields of CollectiveDeviceListProto: 1 a group, repeated; or 2 a grid of all ranks with the
// fields number 1, size 2, dims 3, order 4.
std::string device_list_text(std::string_view bytes) {
  std::string groups;
  for (WireReader list(bytes); list.next();) {
    if (list.field() == 1) groups += (groups.empty() ? "" : ",") + group_text(list.bytes());
    if (list.field() != 2) continue;
    std::vector<int64_t> sizes, dims, order;
    for (WireReader grid(list.bytes()); grid.next();) {
      if (grid.field() <= 2) grid.numbers(into(sizes));
      if (grid.field() == 3) grid.numbers(into(dims));
      if (grid.field() == 4) grid.numbers(into(order));
    }
    groups += "[" + joined(sizes) + "]<=[" + joined(dims) + "]";
    if (order.size() > 1) groups += "T(" + joined(order) + ")";
  }
  return groups;
}

struct Instruction {
  std::string name, opcode, shape, groups, pairs, target;
  std::vector<int64_t> operands, calls, dimensions;
  int64_t id = 0, parameter = -1;
};

// Fields of HloInstructionProto: name 1, opcode 2, shape 3, parameter_number 9, dimensions 14,
// custom_call_target 28, id 35, operand_ids 36, called_computation_ids 38, replica_groups 49,
// source_target_pairs 52, collective_device_list 87 (newer compilers, in place of 49).
Instruction read_instruction(std::string_view bytes) {
  Instruction made;
  for (WireReader field(bytes); field.next();) {
    switch (field.field()) {
    case 1: made.name = field.bytes(); break;
    case 2: made.opcode = field.bytes(); break;
    case 3: made.shape = shape_text(field.bytes()); break;
    case 9: made.parameter = field.number(); break;
    case 14: field.numbers(into(made.dimensions)); break;
    case 28: made.target = field.bytes(); break;
    case 35: made.id = field.number(); break;
    case 36: field.numbers(into(made.operands)); break;
    case 38: field.numbers(into(made.calls)); break;
    case 49: made.groups += (made.groups.empty() ? "" : ",") + group_text(field.bytes()); break;
    case 52: made.pairs += (made.pairs.empty() ? "" : ",") + group_text(field.bytes()); break;
    case 87: made.groups += device_list_text(field.bytes()); break;
    default: break;
    }
  }
  return made;
}

using Names = std::map<int64_t, std::string>;

std::string named(const std::vector<int64_t>& ids, const Names& names) {
  std::string text;
  for (int64_t id : ids) {
    const auto found = names.find(id);
    text +=
        (text.empty() ? "%" : ", %") + (found == names.end() ? std::to_string(id) : found->second);
  }
  return text;
}

std::string line_of(const Instruction& made, const Names& instructions, const Names& computations) {
  std::string line = "%" + made.name + " = " + made.shape + " " + made.opcode + "(";
  line += made.opcode == "parameter" ? std::to_string(std::max<int64_t>(0, made.parameter))
                                     : named(made.operands, instructions);
  line += ")";
  if (!made.dimensions.empty()) line += ", dimensions={" + joined(made.dimensions) + "}";
  const bool listed = made.groups.starts_with("{");
  if (!made.groups.empty())
    line += ", replica_groups=" + (listed ? "{" + made.groups + "}" : made.groups);
  if (!made.pairs.empty()) line += ", source_target_pairs={" + made.pairs + "}";
  if (!made.target.empty()) line += ", custom_call_target=\"" + made.target + "\"";
  if (!made.calls.empty()) line += ", calls=" + named(made.calls, computations);
  return line;
}

// Fields of HloComputationProto: name 1, instructions 2, id 5, root_id 6.
std::string computation_text(std::string_view bytes, const Names& computations) {
  std::string name;
  std::vector<Instruction> body;
  int64_t root = -1;
  Names names;
  for (WireReader field(bytes); field.next();) {
    if (field.field() == 1) name = field.bytes();
    if (field.field() == 6) root = field.number();
    if (field.field() != 2) continue;
    body.push_back(read_instruction(field.bytes()));
    names[body.back().id] = body.back().name;
  }
  std::string text = "%" + name + " {\n";
  for (const Instruction& made : body) {
    text += (made.id == root ? "  ROOT " : "  ") + line_of(made, names, computations) + "\n";
  }
  return text + "}\n\n";
}

} // namespace

// Fields of HloModuleProto: name 1, computations 3, id of the entry computation 6. A module with a
// configuration is field 1 of another message.
std::string hlo_text(std::string_view bytes, std::string_view format) {
  if (format == "hlo_with_config") {
    for (WireReader field(bytes); field.next();) {
      if (field.field() == 1) return hlo_text(field.bytes(), "hlo");
    }
    fail(Code::data_loss, "the optimized program has no module");
  }
  if (format != "hlo")
    fail(Code::unimplemented, "an optimized program in the format {} cannot be read", format);
  std::string name;
  int64_t entry = -1;
  std::vector<std::pair<int64_t, std::string_view>> computations;
  Names names;
  for (WireReader field(bytes); field.next();) {
    if (field.field() == 1) name = field.bytes();
    if (field.field() == 6) entry = field.number();
    if (field.field() != 3) continue;
    int64_t id = 0;
    std::string own;
    for (WireReader part(field.bytes()); part.next();) {
      if (part.field() == 1) own = part.bytes();
      if (part.field() == 5) id = part.number();
    }
    computations.emplace_back(id, field.bytes());
    names[id] = own;
  }
  std::string text = "HloModule " + name + "\n\n", last;
  for (const auto& [id, body] : computations) {
    if (id == entry)
      last = "ENTRY " + computation_text(body, names);
    else
      text += computation_text(body, names);
  }
  return text + last;
}

} // namespace dllm::pjrt
