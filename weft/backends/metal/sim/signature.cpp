#include "weft/backends/metal/sim/signature.h"

#include <algorithm>

#include "weft/base/check.h"

namespace weft::metal::sim {
namespace {

std::string trimmed(std::string text) {
  const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\n'; };
  while (!text.empty() && space(text.back())) text.pop_back();
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), space));
  return text;
}

std::vector<std::string> split_items(const std::string& text) {
  std::vector<std::string> items(1);
  int depth = 0;
  for (char c : text) {
    depth += (c == '(') - (c == ')');
    if (c == ',' && depth == 0)
      items.emplace_back();
    else
      items.back() += c;
  }
  for (std::string& item : items) item = trimmed(item);
  return items;
}

// "forward_" "f32" -> forward_f32
std::string unquoted(const std::string& text) {
  std::string result;
  for (char c : text) {
    if (c != '"' && c != ' ') result += c;
  }
  return result;
}

class KernelFinder {
 public:
  KernelFinder(Tokens& tokens, const Attributes& attributes) : tokens_(tokens), attributes_(attributes) {}

  Kernels find() {
    for (const auto& [begin, end] : markers()) read(begin, end);
    return std::move(kernels_);
  }

 private:
  const Attribute* attribute_at(size_t i) const {
    for (const Attribute& a : attributes_) {
      if (a.begin <= i && i < a.end) return &a;
    }
    return nullptr;
  }

  // `kernel` or [[kernel]].
  std::vector<std::pair<size_t, size_t>> markers() const {
    std::vector<std::pair<size_t, size_t>> found;
    for (const Attribute& a : attributes_) {
      if (std::find(a.items.begin(), a.items.end(), "kernel") != a.items.end()) found.emplace_back(a.begin, a.end);
    }
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_.counts(i) && tokens_.is_word(i) && tokens_.is(i, "kernel") && !attribute_at(i)) found.emplace_back(i, i + 1);
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  void note(const Attribute& a, std::string& host_name, std::string& most_threads) const {
    std::string argument;
    if (find_item(a, "host_name", argument)) host_name = unquoted(argument);
    if (find_item(a, "max_total_threads_per_threadgroup", argument)) most_threads = argument;
  }

  void read(size_t begin, size_t end) {
    std::string host_name, most_threads = "0";
    // Walks back over attributes to `template` (an instantiation) or to the > that closes a template parameter list.
    size_t statement = begin;
    bool instantiated = false, is_template = false;
    for (size_t i = tokens_.previous(begin); i != Tokens::kNone; i = tokens_.previous(i)) {
      if (const Attribute* a = attribute_at(i)) {
        note(*a, host_name, most_threads);
        i = statement = a->begin;
      } else if (tokens_.is(i, "template")) {
        instantiated = true;
        statement = i;
        break;
      } else if (tokens_.is(i, ">")) {
        is_template = true;
        break;
      } else if (!tokens_.is(i, "inline") && !tokens_.is(i, "static")) {
        break;
      }
    }
    if (const Attribute* a = attribute_at(begin)) note(*a, host_name, most_threads);
    size_t after = end;
    while (after < tokens_.size() && (!tokens_.counts(after) || attribute_at(after))) {
      if (const Attribute* a = attribute_at(after)) {
        note(*a, host_name, most_threads);
        after = a->end;
      } else {
        ++after;
      }
    }
    if (instantiated)
      read_instance(statement, after, host_name);
    else
      read_definition(begin, after, most_threads, is_template);
    if (!attribute_at(begin)) tokens_.remove(begin, end);
  }

  // template [[host_name("a")]] kernel void f<float>(...);   or   ... kernel decltype(f<float>) f<float>;
  void read_instance(size_t statement, size_t after, const std::string& host_name) {
    size_t end = after;
    while (end < tokens_.size() && !tokens_.is(end, ";"))
      end = tokens_.is(end, "(") ? tokens_.next(tokens_.closing(end)) : tokens_.next(end);
    size_t last = tokens_.previous(end);
    if (tokens_.is(last, ")")) last = tokens_.previous(tokens_.opening(last));
    check_text(tokens_.is(last, ">"), statement, "an instantiation of a kernel needs its template arguments");
    const size_t open = tokens_.opening(last), name = tokens_.previous(open);
    KernelInstance instance;
    instance.definition = tokens_[name].text;
    instance.callee = tokens_.qualifier(statement) + tokens_[name].text + tokens_.text(open, last + 1);
    instance.host_name = host_name.empty() ? instance.callee : host_name;
    kernels_.instances.push_back(std::move(instance));
    tokens_.remove(statement, end + 1);
  }

  void read_definition(size_t begin, size_t after, const std::string& most_threads, bool is_template) {
    size_t open = after;
    while (open < tokens_.size() && !tokens_.is(open, "(")) open = tokens_.next(open);
    check_text(open < tokens_.size(), begin, "a kernel has no parameters");
    KernelDefinition definition;
    definition.name = tokens_[tokens_.previous(open)].text;
    definition.qualifier = tokens_.qualifier(begin);
    check_text(std::all_of(most_threads.begin(), most_threads.end(), [](char c) { return '0' <= c && c <= '9'; }), begin,
               join("max_total_threads_per_threadgroup is '", most_threads, "', expected a number"));
    definition.most_threads = most_threads;
    definition.is_template = is_template;
    definition.parameters = read_parameters(definition.name, open, tokens_.closing(open));
    if (!is_template) {
      const std::string callee = definition.qualifier + definition.name;
      kernels_.instances.push_back({definition.name, callee, definition.name});
    }
    check_text(kernels_.definitions.emplace(definition.name, definition).second, begin,
               join("two kernels are named '", definition.name, "'"));
  }

  std::vector<KernelParameter> read_parameters(const std::string& kernel, size_t open, size_t close) const {
    std::vector<KernelParameter> parameters;
    int depth = 0;
    for (size_t begin = tokens_.next(open), i = begin; i <= close; i = tokens_.next(i)) {
      if (!attribute_at(i) && i != close) depth += tokens_.is(i, "<") + tokens_.is(i, "(") - tokens_.is(i, ">") - tokens_.is(i, ")");
      const bool ends = i == close || (depth == 0 && tokens_.is(i, ",") && !attribute_at(i));
      if (!ends || begin == close) continue;
      const KernelParameter p = read_parameter(kernel, begin, i);
      for (const KernelParameter& other : parameters) {
        check_text(p.kind == KernelParameter::Kind::builtin || p.kind != other.kind || p.index != other.index, begin,
                   join("parameters '", other.name, "' and '", p.name, "' of kernel '", kernel, "' both have index ", p.index));
      }
      parameters.push_back(p);
      begin = tokens_.next(i);
    }
    return parameters;
  }

  KernelParameter read_parameter(const std::string& kernel, size_t begin, size_t end) const {
    KernelParameter p;
    p.file = tokens_.file(begin);
    p.line = int(tokens_[begin].line);
    std::string builtin, argument;
    bool bound = false;
    for (size_t i = begin; i < end; i = tokens_.next(i)) {
      const Attribute* a = attribute_at(i);
      if (!a) {
        if (tokens_.is_word(i)) p.name = tokens_[i].text;
        if (tokens_.is(i, "&")) p.reference = true;
        continue;
      }
      if (find_item(*a, "function_constant", argument)) p.optional = true;
      if (find_item(*a, "buffer", argument))
        p.kind = KernelParameter::Kind::buffer, p.index = argument, bound = true;
      else if (find_item(*a, "threadgroup", argument))
        p.kind = KernelParameter::Kind::threadgroup, p.index = argument, bound = true;
      else if (builtin.empty() && !a->items.front().starts_with("function_constant"))
        p.builtin = builtin = a->items.front();
      i = a->end - 1;
    }
    check_text(bound || !builtin.empty(), begin, join("parameter '", p.name, "' of kernel '", kernel, "' has no attribute"));
    return p;
  }

  template <class Message>
  void check_text(bool ok, size_t at, const Message& message) const {
    if (!ok) fail(ErrorCode::unsupported, tokens_.place(at), message);
  }

  Tokens& tokens_;
  const Attributes& attributes_;
  Kernels kernels_;
};

}  // namespace

Attributes find_attributes(const Tokens& tokens) {
  Attributes found;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (!tokens.counts(i) || !tokens.is(i, "[") || !tokens.is(i + 1, "[")) continue;
    const size_t end = tokens.closing(i) + 1;
    found.push_back({i, end, split_items(tokens.text(i + 2, end - 2))});
    i = end - 1;
  }
  return found;
}

const std::string* find_item(const Attribute& attribute, std::string_view name, std::string& argument) {
  for (const std::string& item : attribute.items) {
    if (item.size() > name.size() + 1 && item.starts_with(name) && item[name.size()] == '(' && item.back() == ')') {
      argument = item.substr(name.size() + 1, item.size() - name.size() - 2);
      return &item;
    }
  }
  return nullptr;
}

Kernels find_kernels(Tokens& tokens, const Attributes& attributes) { return KernelFinder(tokens, attributes).find(); }

}  // namespace weft::metal::sim
