// The functions that every template sees.
#include <algorithm>
#include <ctime>

#include "weft/chat/iteration.h"
#include "weft/chat/machine.h"
#include "weft/chat/operators.h"
#include "weft/chat/printing.h"
#include "weft/chat/trouble.h"

namespace weft::chat {
namespace {

Value range(Machine& machine, const Value&, Arguments& arguments) {
  const auto bound = bind(arguments, "range()", {"start", "stop", "step"}, 1);
  int64_t start = 0, stop = whole(*bound[0], "range()"), step = 1;
  if (bound[1]) start = stop, stop = whole(*bound[1], "range()");
  if (bound[2]) step = whole(*bound[2], "range()");
  if (step == 0) wrong("range() arg 3 must not be zero");
  const Value made = machine.heap().range(start, stop, step);
  if (made.range().size() > kMostRange || made.range().size() < 0) wrong("range() has more than ", kMostRange, " elements");
  return made;
}

// Entries of dict(...) and namespace(...): of a mapping or of pairs, then the named ones.
std::vector<Dict::Entry> entries_of(Machine& machine, std::string_view what, const Arguments& arguments) {
  Heap& heap = machine.heap();
  std::vector<Dict::Entry> entries;
  if (arguments.positional.size() > 1) wrong(what, " expected at most 1 argument, got ", arguments.positional.size());
  if (!arguments.positional.empty() && arguments.positional[0].is_dict()) {
    entries = arguments.positional[0].dict().entries;
    heap.step(int64_t(entries.size()));
  } else if (!arguments.positional.empty()) {
    require_defined(arguments.positional[0]);
    for (const Value& pair : collected(heap, arguments.positional[0])) {
      const std::vector<Value> parts = collected(heap, pair);
      if (parts.size() != 2) wrong(what, " needs pairs, got an element of length ", parts.size());
      entries.emplace_back(parts[0], parts[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) entries.emplace_back(heap.string(name), value);
  return entries;
}

Value make_dict(Machine& machine, const Value&, Arguments& arguments) {
  return machine.heap().dict(entries_of(machine, "dict()", arguments));
}

Value make_namespace(Machine& machine, const Value&, Arguments& arguments) {
  std::vector<std::pair<std::string, Value>> members;
  for (auto& [key, value] : entries_of(machine, "namespace()", arguments)) members.emplace_back(text(key, "a name of namespace()"), value);
  return machine.make_namespace(std::move(members));
}

Value raise_exception(Machine& machine, const Value&, Arguments& arguments) {
  const auto bound = bind(arguments, "raise_exception()", {"message"}, 1);
  throw Trouble(ErrorCode::invalid_argument, printed(machine, *bound[0]), /*raised=*/true);
}

// As datetime.strftime() of a time without a zone: %z and %Z are empty, %f has microseconds.
Value strftime_now(Machine& machine, const Value&, Arguments& arguments) {
  const auto bound = bind(arguments, "strftime_now()", {"format"}, 1);
  const std::string& given = text(*bound[0], "strftime_now()");
  if (given.size() > 4096) exceeded("the format of strftime_now() has more than 4096 bytes");
  std::string format;
  for (size_t i = 0; i < given.size(); ++i) {
    const char next = given[i] == '%' && i + 1 < given.size() ? given[i + 1] : 0;
    if (next == 0) {
      format += given[i];
      continue;
    }
    ++i;
    if (next == 'f')
      format += "000000";
    else if (next != 'z' && next != 'Z')
      format.append({'%', next});
  }
  const std::time_t now = machine.now();
  std::tm parts{};
  localtime_r(&now, &parts);
  std::string out(format.size() * 64 + 64, '\0');
  out.resize(std::strftime(out.data(), out.size(), format.c_str(), &parts));
  return machine.heap().string(std::move(out));
}

// cycler(...): next() gives its items in turn.
struct Cycler : Native, std::enable_shared_from_this<Cycler> {
  std::string_view type_name() const override { return "Cycler"; }
  std::optional<Value> attribute(Machine& machine, std::string_view name) override {
    if (name == "current") return items[at];
    if (name != "next" && name != "reset") return std::nullopt;
    const Callable function = name == "next" ? next_of : reset_of;
    const int levels = depth + 1;
    return machine.heap().keep(Type::object,
                               std::make_shared<Function>(std::string(name), function, Value(Type::object, shared_from_this()), true),
                               sizeof(Function), levels);
  }
  static Value next_of(Machine&, const Value& self, Arguments&) {
    auto& cycler = static_cast<Cycler&>(self.native());
    const Value current = cycler.items[cycler.at];
    cycler.at = (cycler.at + 1) % cycler.items.size();
    return current;
  }
  static Value reset_of(Machine&, const Value& self, Arguments&) {
    static_cast<Cycler&>(self.native()).at = 0;
    return Value();
  }
  std::vector<Value> items;
  size_t at = 0;
};

Value cycler(Machine& machine, const Value&, Arguments& arguments) {
  if (arguments.positional.empty()) wrong("cycler() needs at least one item");
  auto made = std::make_shared<Cycler>();
  made->items = arguments.positional;
  int depth = 0;
  for (const Value& item : made->items) depth = std::max(depth, item.depth());
  const size_t bytes = sizeof(Cycler) + made->items.size() * sizeof(Value);
  return machine.heap().keep(Type::object, std::move(made), bytes, depth + 1);
}

// joiner(separator): nothing at the first call, the separator afterwards.
struct Joiner : Native {
  std::string_view type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value call(Machine& machine, Arguments&) override {
    if (used) return separator;
    used = true;
    return machine.heap().string("");
  }
  Value separator;
  bool used = false;
};

Value joiner(Machine& machine, const Value&, Arguments& arguments) {
  const auto bound = bind(arguments, "joiner()", {"sep"});
  auto made = std::make_shared<Joiner>();
  made->separator = bound[0] ? *bound[0] : machine.heap().string(", ");
  const int depth = made->separator.depth() + 1;
  return machine.heap().keep(Type::object, std::move(made), sizeof(Joiner), depth);
}

Value lorem(Machine&, const Value&, Arguments&) { not_supported("the function lipsum() is not supported"); }

}  // namespace

void add_functions(Heap& heap, std::unordered_map<std::string, Value>& context) {
  static constexpr std::pair<std::string_view, Callable> kFunctions[] = {{"range", range},
                                                                         {"dict", make_dict},
                                                                         {"namespace", make_namespace},
                                                                         {"raise_exception", raise_exception},
                                                                         {"strftime_now", strftime_now},
                                                                         {"cycler", cycler},
                                                                         {"joiner", joiner},
                                                                         {"lipsum", lorem}};
  for (const auto& [name, function] : kFunctions)
    context[std::string(name)] = heap.keep(Type::object, std::make_shared<Function>(std::string(name), function), sizeof(Function), 0);
}

}  // namespace weft::chat
