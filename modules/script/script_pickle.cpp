#include "modules/script/script_pickle.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/printable.h"
#include "modules/script/script_refusal.h"

namespace sluice {
namespace {

constexpr int kDeepest = 200;

/// The bytes of an element, by the storage's class in "torch".
const std::map<std::string, std::uint64_t, std::less<>>& storage_classes() {
  static const std::map<std::string, std::uint64_t, std::less<>> classes = {
      {"torch.BoolStorage", 1},         {"torch.ByteStorage", 1},
      {"torch.CharStorage", 1},         {"torch.ShortStorage", 2},
      {"torch.HalfStorage", 2},         {"torch.BFloat16Storage", 2},
      {"torch.IntStorage", 4},          {"torch.FloatStorage", 4},
      {"torch.LongStorage", 8},         {"torch.DoubleStorage", 8},
      {"torch.ComplexFloatStorage", 8}, {"torch.ComplexDoubleStorage", 16}};
  return classes;
}

/// Whether a pickle may call that name, beside classes of the file itself.
bool is_known_call(std::string_view name) {
  constexpr std::string_view kCalls[] = {"torch._utils._rebuild_tensor_v2",
                                         "collections.OrderedDict",
                                         "torch.jit._pickle.build_intlist",
                                         "torch.jit._pickle.build_tensorlist",
                                         "torch.jit._pickle.build_doublelist",
                                         "torch.jit._pickle.build_boollist",
                                         "torch.jit._pickle.restore_type_tag",
                                         "torch.device",
                                         "builtins.complex"};
  return std::find(std::begin(kCalls), std::end(kCalls), name) !=
         std::end(kCalls);
}

bool is_class_of_file(std::string_view name) {
  return name.starts_with("__torch__.") &&
         !name.starts_with("__torch__.torch.classes.");
}

/// A value on the reader's stack, as far as it matters here.
struct Item {
  enum class Kind : std::uint8_t {
    other,
    integer,
    text,
    name,  ///< of a class or function
    tuple,
    storage,  ///< a tensor over all of one
  };
  Kind kind = Kind::other;
  int depth = 1;
  bool is_remembered = false;  ///< taken from the memo
  std::int64_t integer = 0;    ///< of a storage: its elements
  std::string text = {};
  std::shared_ptr<const std::vector<Item>> items = nullptr;
};

class PickleWalk {
 public:
  PickleWalk(std::string_view pickle, const std::string& file,
             const std::string& name,
             const std::function<std::uint64_t(const std::string&)>& bytes_of)
      : all_(pickle.size()),
        rest_(pickle),
        file_(file),
        name_(name),
        bytes_of_(bytes_of) {}

  void check() {
    if (number<std::uint8_t>() != 0x80 || number<std::uint8_t>() != 2)
      refuse("it is no pickle of protocol 2");
    while (step()) {
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& text) const {
    refuse_script(file_, "{}: {}", name_, printable(text));
  }

  std::string_view bytes(std::size_t count) {
    if (count > rest_.size()) refuse("it ends early");
    const std::string_view found = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return found;
  }

  template <class T>
  T number() {
    T value = {};
    std::memcpy(&value, bytes(sizeof value).data(), sizeof value);
    return value;
  }

  std::string line() {
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) refuse("it ends early");
    std::string text(bytes(end));
    bytes(1);
    return text;
  }

  void push(Item item) { stack_.push_back(std::move(item)); }
  void push_other() { push({}); }
  void push_integer(std::int64_t value) {
    push({.kind = Item::Kind::integer, .integer = value});
  }

  Item pop() {
    if (stack_.empty() || (!marks_.empty() && stack_.size() <= marks_.back()))
      refuse("it takes more from the stack than there is");
    Item item = std::move(stack_.back());
    stack_.pop_back();
    return item;
  }

  std::vector<Item> pop_to_mark() {
    if (marks_.empty() || marks_.back() > stack_.size())
      refuse("it has an end of what was not begun");
    const auto begin =
        stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Item> items(std::make_move_iterator(begin),
                            std::make_move_iterator(stack_.end()));
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }

  int depth_around(const std::vector<Item>& items) const {
    int depth = 1;
    for (const Item& item : items) depth = std::max(depth, item.depth + 1);
    if (depth > kDeepest)
      refuse(fmt::format("values are nested more than {} deep", kDeepest));
    return depth;
  }

  void push_tuple(std::vector<Item> items) {
    const int depth = depth_around(items);
    push(
        {.kind = Item::Kind::tuple,
         .depth = depth,
         .items = std::make_shared<const std::vector<Item>>(std::move(items))});
  }

  void push_tuple_of(std::size_t count) {
    std::vector<Item> items(count);
    for (std::size_t i = count; i > 0; --i) items[i - 1] = pop();
    push_tuple(std::move(items));
  }

  /// A list or dictionary gets what was above it. One that is also elsewhere
  /// could be nested deeper than this walk counts.
  void put_into_container(const std::vector<Item>& items) {
    Item container = pop();
    if (container.is_remembered)
      refuse("it changes a value that it has handed on");
    container.depth = std::max(container.depth, depth_around(items));
    push(std::move(container));
  }

  void put_into_container(std::size_t count) {
    std::vector<Item> items(count);
    for (Item& item : items) item = pop();
    put_into_container(items);
  }

  void remember(std::size_t number) {
    if (number > all_) refuse("it has a number of the memo that is too large");
    if (stack_.empty()) refuse("it takes more from the stack than there is");
    memo_[number] = stack_.back();
  }

  void recall(std::size_t number) {
    const auto found = memo_.find(number);
    if (found == memo_.end()) refuse("it takes from the memo what isn't there");
    Item item = found->second;
    item.is_remembered = true;
    push(std::move(item));
  }

  void push_name() {
    const std::string module = line();
    std::string name = module + "." + line();
    if (!storage_classes().contains(name) && !is_known_call(name) &&
        !is_class_of_file(name))
      refuse(fmt::format("it makes a '{}'", name));
    push({.kind = Item::Kind::name, .text = std::move(name)});
  }

  /// REDUCE and BUILD, which LibTorch takes for the same.
  void call() {
    const Item argument = pop();
    const Item function = pop();
    if (function.kind != Item::Kind::name ||
        storage_classes().contains(function.text))
      refuse("it calls what is no class or function");
    if (function.text == "torch._utils._rebuild_tensor_v2")
      check_tensor(argument);
    push({.depth = depth_around({argument})});
  }

  const std::vector<Item>& items_of(const Item& item) const {
    if (item.kind != Item::Kind::tuple)
      refuse("a tensor is of a form that TorchScript doesn't write");
    return *item.items;
  }

  void check_tensor(const Item& argument) const {
    const std::vector<Item>& parts = items_of(argument);
    if (parts.size() < 4 || parts[0].kind != Item::Kind::storage ||
        parts[1].kind != Item::Kind::integer)
      refuse("a tensor is of a form that TorchScript doesn't write");
    const std::vector<Item>& sizes = items_of(parts[2]);
    const std::vector<Item>& strides = items_of(parts[3]);
    if (sizes.size() != strides.size())
      refuse("a tensor has other strides than sizes");
    if (elements_up_to_end(parts[1].integer, sizes, strides) >
        static_cast<double>(parts[0].integer))
      refuse("a tensor is larger than its storage");
  }

  /// How many elements a storage must have; more than any has for a negative
  /// number. Rounding is far below one at what a file can have.
  static double elements_up_to_end(std::int64_t offset,
                                   const std::vector<Item>& sizes,
                                   const std::vector<Item>& strides) {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    double end = static_cast<double>(offset) + 1;
    if (offset < 0) return kNever;
    bool is_empty = false;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i].kind != Item::Kind::integer ||
          strides[i].kind != Item::Kind::integer || sizes[i].integer < 0 ||
          strides[i].integer < 0)
        return kNever;
      is_empty = is_empty || sizes[i].integer == 0;
      end += (static_cast<double>(sizes[i].integer) - 1) *
             static_cast<double>(strides[i].integer);
    }
    return is_empty ? 0 : end;
  }

  /// ("storage", torch.FloatStorage, key, device, elements)
  void take_storage() {
    const Item argument = pop();
    const std::vector<Item>& parts = items_of(argument);
    using Kind = Item::Kind;
    if (parts.size() < 5 || parts[0].text != "storage" ||
        parts[1].kind != Kind::name || parts[2].kind != Kind::text ||
        parts[4].kind != Kind::integer)
      refuse("a storage is of a form that TorchScript doesn't write");
    const auto type = storage_classes().find(parts[1].text);
    if (type == storage_classes().end())
      refuse(fmt::format("a storage is a '{}'", parts[1].text));
    const std::int64_t elements = parts[4].integer;
    const std::uint64_t record = elements == 0 ? 0 : bytes_of_(parts[2].text);
    if (elements < 0 ||
        static_cast<std::uint64_t>(elements) > record / type->second)
      refuse(
          fmt::format("the storage '{}' is to have {} elements, and its "
                      "record has {} bytes",
                      parts[2].text, elements, record));
    push({.kind = Kind::storage, .integer = elements});
  }

  void push_text() {
    const std::string_view text = bytes(number<std::uint32_t>());
    push({.kind = Item::Kind::text, .text = std::string(text)});
  }

  void push_long() {
    if (number<std::uint8_t>() != 8) refuse("an integer isn't of 8 bytes");
    push_integer(number<std::int64_t>());
  }

  void pop_to_mark_for_value() { push({.depth = depth_around(pop_to_mark())}); }

  /// Does the next opcode; false: it was the end.
  bool step() {
    const char code = number<char>();
    switch (code) {
      case '.':
        return false;
      case '(':
        marks_.push_back(stack_.size());
        break;
      case ']':
      case '}':
      case 'N':
      case '\x88':
      case '\x89':
        push_other();
        break;
      case ')':
        push_tuple({});
        break;
      case 'q':
        remember(number<std::uint8_t>());
        break;
      case 'r':
        remember(number<std::uint32_t>());
        break;
      case 'h':
        recall(number<std::uint8_t>());
        break;
      case 'j':
        recall(number<std::uint32_t>());
        break;
      case 'K':
        push_integer(number<std::uint8_t>());
        break;
      case 'M':
        push_integer(number<std::uint16_t>());
        break;
      case 'J':
        push_integer(number<std::int32_t>());
        break;
      case '\x8a':
        push_long();
        break;
      case 'G':
        bytes(8);
        push_other();
        break;
      case 'X':
        push_text();
        break;
      case 't':
        push_tuple(pop_to_mark());
        break;
      case '\x85':
        push_tuple_of(1);
        break;
      case '\x86':
        push_tuple_of(2);
        break;
      case '\x87':
        push_tuple_of(3);
        break;
      case 'l':
      case 'd':
        pop_to_mark_for_value();
        break;
      case 'e':
      case 'u':
        put_into_container(pop_to_mark());
        break;
      case 'a':
        put_into_container(1);
        break;
      case 's':
        put_into_container(2);
        break;
      case 'c':
        push_name();
        break;
      case '\x81':
        pop();
        break;  // the class stays below
      case 'b':
      case 'R':
        call();
        break;
      case 'Q':
        take_storage();
        break;
      default:
        refuse(
            fmt::format("it has the opcode {:#04x}, which TorchScript "
                        "doesn't write",
                        static_cast<unsigned char>(code)));
    }
    return true;
  }

  std::size_t all_;
  std::string_view rest_;
  const std::string& file_;
  const std::string& name_;
  const std::function<std::uint64_t(const std::string&)>& bytes_of_;
  std::vector<Item> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::size_t, Item> memo_;
};

}  // namespace

void check_script_pickle(
    std::string_view pickle, const std::string& file, const std::string& name,
    const std::function<std::uint64_t(const std::string& key)>& bytes_of) {
  PickleWalk(pickle, file, name, bytes_of).check();
}

}  // namespace sluice
