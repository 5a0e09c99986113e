#include "ckpt/torch/pickle.h"

#include "base/error.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>

namespace dllm::ckpt {
namespace {

// A value that a pickle builds. All values are stored in one list and refer to each other by index.
// So a list may contain itself, and a value may be used several times.
struct PickleValue {
  enum class Kind {
    none, // None, True, False and fractions, which are not used
    integer,
    text,
    tuple,
    list,
    dict, // items: key, value, key, value
    global,
    storage, // integer: index of the tensor without a shape
    tensor   // integer: index of the tensor
  } kind = Kind::none;
  int64_t integer = 0;
  std::string text;
  std::vector<uint32_t> items;
};
using Kind = PickleValue::Kind;

// These limits are far above every file of weights. They bound the memory that a malicious pickle
// can fill.
constexpr size_t kMaxValues = size_t{1} << 22; // 100,000 tensors need 2 million values
constexpr size_t kMaxText = 4096, kMaxKey = 64, kMaxArguments = 8, kMaxTensorAxes = 16;

// Returns the name of an opcode that malicious or unusual pickles have, for errors.
const char* refused_name(uint8_t opcode) {
  switch (opcode) {
  case 'i': return " (INST)";
  case 'o': return " (OBJ)";
  case 'P': return " (PERSID)";
  case 0x81: return " (NEWOBJ)";
  case 0x92: return " (NEWOBJ_EX)";
  case 0x82:
  case 0x83:
  case 0x84: return " (EXT)";
  case '0': return " (POP)";
  case '1': return " (POP_MARK)";
  case '2': return " (DUP)";
  case 'B':
  case 'C':
  case 0x8e: return " (BYTES)";
  case 0x96: return " (BYTEARRAY8)";
  case 0x97: return " (NEXT_BUFFER)";
  case 'I': return " (INT)";
  case 'S': return " (STRING)";
  case 'p': return " (PUT)";
  case 'g': return " (GET)";
  default: return "";
  }
}

// The globals that a state_dict of tensors names. A storage is torch.<kind>.
constexpr std::string_view kDictName = "collections.OrderedDict";
constexpr std::string_view kTensorName = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kParameterName = "torch._utils._rebuild_parameter";
constexpr std::string_view kStorages[] = {
    "torch.FloatStorage", "torch.HalfStorage", "torch.BFloat16Storage", "torch.DoubleStorage",
    "torch.LongStorage",  "torch.IntStorage",  "torch.ShortStorage",    "torch.CharStorage",
    "torch.ByteStorage",  "torch.BoolStorage"};

bool is_allowed(std::string_view name) {
  return name == kDictName || name == kTensorName || name == kParameterName ||
         std::find(std::begin(kStorages), std::end(kStorages), name) != std::end(kStorages);
}

class PickleMachine {
public:
  PickleMachine(std::string_view bytes, const std::string& file)
      : bytes_(bytes), file_(file), values_(2) {
    values_[kEmptyTuple].kind = Kind::tuple;
  }

  std::vector<PickledTensor> run() {
    while (!stopped_) {
      opcode_at_ = at_;
      step(read<uint8_t>());
    }
    return tensors_of(value(pop()));
  }

private:
  [[noreturn]] void broken(const char* what) const {
    fail_with_hint("is the download complete?", Code::data_loss, "{}: the pickle {} at byte {}",
                   file_, what, opcode_at_);
  }

  // ---- bytes ----

  std::string_view take(uint64_t size) {
    if (size > bytes_.size() - at_) broken("ends in the middle of an opcode");
    const std::string_view part = bytes_.substr(at_, static_cast<size_t>(size));
    at_ += part.size();
    return part;
  }

  template <class T> T read() {
    T number;
    std::memcpy(&number, take(sizeof number).data(), sizeof number);
    return number;
  }

  std::string text(uint64_t size) {
    if (size > kMaxText) broken("has a text of more than 4096 bytes");
    return std::string(take(size));
  }

  std::string line() {
    const size_t end = bytes_.substr(at_, kMaxText).find('\n');
    if (end == std::string_view::npos) broken("has a line without an end");
    const std::string part(take(end));
    take(1);
    return part;
  }

  // ---- values and the stack ----

  const PickleValue& value(uint32_t index) const { return values_[index]; }

  void push(Kind kind, int64_t integer = 0, std::string text = {}) {
    if (values_.size() >= kMaxValues) broken("makes more than 4194304 values");
    stack_.push_back(static_cast<uint32_t>(values_.size()));
    values_.push_back({kind, integer, std::move(text), {}});
  }
  void push_shared(uint32_t index) { stack_.push_back(index); }
  void push_tensor(Kind kind, PickledTensor tensor) {
    push(kind, static_cast<int64_t>(tensors_.size()));
    tensors_.push_back(std::move(tensor));
  }
  const PickledTensor& tensor_of(const PickleValue& value) const {
    return tensors_[static_cast<size_t>(value.integer)];
  }
  // Removes and returns the top value. Fails at the last mark.
  uint32_t pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) broken("takes from an empty stack");
    const uint32_t top = stack_.back();
    stack_.pop_back();
    return top;
  }
  std::vector<uint32_t> pop_to_mark() {
    if (marks_.empty()) broken("has no mark");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<uint32_t> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }
  uint32_t top() {
    const uint32_t index = pop();
    stack_.push_back(index);
    return index;
  }
  void push_tuple(std::vector<uint32_t> items) {
    push(Kind::tuple);
    values_[stack_.back()].items = std::move(items);
  }
  // Removes and returns the last `count` values, oldest first.
  std::vector<uint32_t> pop_some(size_t count) {
    std::vector<uint32_t> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }

  void append(const std::vector<uint32_t>& items, Kind to) {
    PickleValue& target = values_[top()];
    if (target.kind != to) broken("adds items to a value that cannot hold them");
    if (to == Kind::dict && items.size() % 2 != 0) broken("has a key without a value");
    target.items.insert(target.items.end(), items.begin(), items.end());
  }

  void remember(uint64_t slot) {
    // Writers number the slots from 0. A gap is legal, but no writer leaves a large one.
    if (slot > bytes_.size()) broken("stores a value at a number beyond its size");
    if (memo_.size() <= slot) memo_.resize(slot + 1, kNothing);
    memo_[slot] = top();
  }
  void recall(uint64_t slot) {
    if (slot >= memo_.size() || memo_[slot] == kNothing)
      broken("loads a value that it never stored");
    stack_.push_back(memo_[slot]);
  }

  // ---- names, calls and storages ----

  void push_global(std::string name) {
    if (!is_allowed(name)) {
      fail_with_hint("a file of weights names only tensors, storages and OrderedDict; a pickle "
                     "that names more may run any code when Python reads it",
                     Code::unimplemented, "{}: the pickle names the global {} at byte {}", file_,
                     name, opcode_at_);
    }
    push(Kind::global, 0, std::move(name));
  }

  int64_t integer_of(uint32_t index) const {
    if (value(index).kind != Kind::integer) broken("has another value where a number is expected");
    return value(index).integer;
  }
  std::vector<int64_t> integers_of(uint32_t index) const {
    if (value(index).kind != Kind::tuple) broken("has another value where a tuple is expected");
    if (value(index).items.size() > kMaxTensorAxes) broken("makes a tensor of more than 16 axes");
    std::vector<int64_t> numbers;
    for (uint32_t item : value(index).items) numbers.push_back(integer_of(item));
    return numbers;
  }

  // Reads the tuple ("storage", <storage type>, key, device, elements).
  void push_storage() {
    const PickleValue& id = value(pop());
    const auto is_storage = [&] {
      if (id.kind != Kind::tuple || id.items.size() != 5) return false;
      const PickleValue& type = value(id.items[1]);
      return value(id.items[0]).text == "storage" && type.kind == Kind::global &&
             type.text.ends_with("Storage") && value(id.items[2]).kind == Kind::text &&
             value(id.items[2]).text.size() <= kMaxKey;
    };
    if (!is_storage()) broken("has a persistent id that is not a storage");
    PickledTensor made;
    made.kind = value(id.items[1]).text.substr(std::strlen("torch."));
    made.storage = value(id.items[2]).text;
    made.elements = integer_of(id.items[4]);
    push_tensor(Kind::storage, std::move(made));
  }

  // Does _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks[, metadata]).
  void make_tensor(const std::vector<uint32_t>& arguments) {
    if (arguments.size() < 4 || value(arguments[0]).kind != Kind::storage)
      broken("makes a tensor without a storage");
    PickledTensor made = tensor_of(value(arguments[0]));
    made.offset = integer_of(arguments[1]);
    made.shape = integers_of(arguments[2]);
    made.strides = integers_of(arguments[3]);
    if (made.shape.size() != made.strides.size())
      broken("makes a tensor whose shape and strides have different lengths");
    push_tensor(Kind::tensor, std::move(made));
  }

  void call() {
    const std::vector<uint32_t> parts = pop_some(2);
    if (value(parts[0]).kind != Kind::global || value(parts[1]).kind != Kind::tuple)
      broken("calls a value that is not a function");
    const std::string name = value(parts[0]).text;
    if (value(parts[1]).items.size() > kMaxArguments) broken("calls with more than 8 arguments");
    const std::vector<uint32_t> arguments = value(parts[1]).items;
    if (name == kTensorName) return make_tensor(arguments);
    if (name == kParameterName) {
      if (arguments.empty() || value(arguments[0]).kind != Kind::tensor)
        broken("makes a parameter without a tensor");
      return push_shared(arguments[0]);
    }
    if (name == kDictName && arguments.empty()) return push(Kind::dict);
    fail(Code::unimplemented, "{}: the pickle calls {} with {} arguments at byte {}", file_, name,
         arguments.size(), opcode_at_);
  }

  // Drops the attributes of an OrderedDict (_metadata, which has the versions of modules).
  void build() {
    pop();
    if (value(top()).kind != Kind::dict)
      fail(Code::unimplemented, "{}: the pickle sets the state of an object (BUILD) at byte {}",
           file_, opcode_at_);
  }

  int64_t long_number(uint64_t size) {
    const std::string_view digits = take(size);
    if (size > 8) broken("has a number above 64 bits");
    uint64_t number = 0;
    std::memcpy(&number, digits.data(), digits.size());
    if (size > 0 && size < 8 && (static_cast<uint8_t>(digits.back()) & 0x80) != 0)
      number |= ~uint64_t{0} << (8 * size);
    return static_cast<int64_t>(number);
  }

  void step(uint8_t opcode) {
    switch (opcode) {
    case 0x80: take(1); return;                       // PROTO
    case 0x95: take(8); return;                       // FRAME
    case '.': stopped_ = true; return;                // STOP
    case '(': return marks_.push_back(stack_.size()); // MARK
    case 'N':
    case 0x88:                                                           // NEWTRUE
    case 0x89: return push_shared(kUnused);                              // NEWFALSE
    case 'G': take(8); return push_shared(kUnused);                      // BINFLOAT
    case 'J': return push(Kind::integer, read<int32_t>());               // BININT
    case 'K': return push(Kind::integer, read<uint8_t>());               // BININT1
    case 'M': return push(Kind::integer, read<uint16_t>());              // BININT2
    case 0x8a: return push(Kind::integer, long_number(read<uint8_t>())); // LONG1
    case 'X': return push(Kind::text, 0, text(read<uint32_t>()));        // BINUNICODE
    case 0x8c: return push(Kind::text, 0, text(read<uint8_t>()));        // SHORT_BINUNICODE
    case 0x8d: return push(Kind::text, 0, text(read<uint64_t>()));       // BINUNICODE8
    case '}': return push(Kind::dict);
    case ']': return push(Kind::list);
    case ')': return push_shared(kEmptyTuple);
    case 't': return push_tuple(pop_to_mark());
    case 0x85: return push_tuple(pop_some(1));
    case 0x86: return push_tuple(pop_some(2));
    case 0x87: return push_tuple(pop_some(3));
    case 'a': return append(pop_some(1), Kind::list);
    case 'e': return append(pop_to_mark(), Kind::list);
    case 's': return append(pop_some(2), Kind::dict);
    case 'u': return append(pop_to_mark(), Kind::dict);
    case 'q': return remember(read<uint8_t>());  // BINPUT
    case 'r': return remember(read<uint32_t>()); // LONG_BINPUT
    case 0x94: return remember(memo_.size());    // MEMOIZE
    case 'h': return recall(read<uint8_t>());    // BINGET
    case 'j': return recall(read<uint32_t>());   // LONG_BINGET
    case 'c': {                                  // GLOBAL
      const std::string module = line();
      return push_global(module + "." + line());
    }
    case 0x93: { // STACK_GLOBAL
      const std::vector<uint32_t> parts = pop_some(2);
      if (value(parts[0]).kind != Kind::text || value(parts[1]).kind != Kind::text)
        broken("names a global without a text");
      return push_global(value(parts[0]).text + "." + value(parts[1]).text);
    }
    case 'R': return call();         // REDUCE
    case 'b': return build();        // BUILD
    case 'Q': return push_storage(); // BINPERSID
    default:
      fail_with_hint("tensors, dicts, tuples, texts and numbers are read", Code::unimplemented,
                     "{}: the pickle has the opcode 0x{:02x}{} at byte {}", file_, opcode,
                     refused_name(opcode), opcode_at_);
    }
  }

  std::vector<PickledTensor> tensors_of(const PickleValue& dict) const {
    if (dict.kind != Kind::dict)
      fail(Code::unimplemented, "{}: the pickle holds no dict of tensors", file_);
    std::vector<PickledTensor> tensors;
    std::set<std::string_view> names;
    for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const PickleValue& key = value(dict.items[i]);
      const PickleValue& entry = value(dict.items[i + 1]);
      if (key.kind != Kind::text)
        fail(Code::unimplemented, "{}: a key of the dict is not a text", file_);
      if (entry.kind != Kind::tensor) {
        fail_with_hint(
            "save only the state_dict of the model: torch.save(model.state_dict(), path)",
            Code::unimplemented, "{}: {} is not a tensor", file_, key.text);
      }
      if (!names.insert(key.text).second)
        fail(Code::data_loss, "{}: the pickle names {} twice", file_, key.text);
      tensors.push_back(tensor_of(entry));
      tensors.back().name = key.text;
    }
    return tensors;
  }

  static constexpr uint32_t kUnused = 0, kEmptyTuple = 1; // indices of shared values
  static constexpr uint32_t kNothing = 0xFFFFFFFF;        // an unused slot of the memo

  std::string_view bytes_;
  const std::string& file_;
  size_t at_ = 0, opcode_at_ = 0;
  bool stopped_ = false;
  std::vector<PickleValue> values_;
  std::vector<PickledTensor> tensors_; // and storages
  std::vector<uint32_t> stack_, memo_;
  std::vector<size_t> marks_; // sizes of the stack at the open marks
};

} // namespace

std::vector<PickledTensor> parse_tensor_pickle(std::string_view pickle, const std::string& file) {
  return PickleMachine(pickle, file).run();
}

} // namespace dllm::ckpt
