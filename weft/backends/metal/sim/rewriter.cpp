#include "weft/backends/metal/sim/rewriter.h"

#include <map>
#include <set>

#include "weft/backends/metal/sim/signature.h"
#include "weft/base/check.h"

namespace weft::metal::sim {
namespace {

std::string quoted(const std::string& text) { return join("\"", text, "\""); }

class Rewriter {
 public:
  explicit Rewriter(const std::string& preprocessed) : tokens_(preprocessed), attributes_(find_attributes(tokens_)) {}

  std::string run() {
    kernels_ = find_kernels(tokens_, attributes_);
    function_constants();
    for (const Attribute& a : attributes_) tokens_.remove(a.begin, a.end);
    dependent_constants();
    threadgroup_variables();
    std::map<std::string, Overload> seen;
    merge_overloads(0, tokens_.size(), "", seen);
    collect_bodies();
    return "#include <weft_sim/stdlib.h>\n" + tokens_.str() + "\n#line 1 \"entries\"\n" + entries();
  }

 private:
  struct Constant {
    std::string name, qualified, index;
  };
  struct Overload {
    std::string header, body;
  };

  // The start of the statement that contains i.
  size_t statement_begin(size_t i) const {
    for (size_t p; (p = tokens_.previous(i)) != Tokens::kNone; i = p) {
      if (tokens_.is(p, ";") || tokens_.is(p, "{") || tokens_.is(p, "}")) break;
    }
    return i;
  }

  // The type between begin and the name, without storage class and address space.
  std::string type_of(size_t begin, size_t name) const {
    std::string type;
    for (size_t i = begin; i < name; ++i) {
      if (!tokens_.counts(i) || tokens_.is(i, "constant") || tokens_.is(i, "const") || tokens_.is(i, "static")) continue;
      type += tokens_[i].text + " ";
    }
    return type;
  }

  // constant bool has_bias [[function_constant(0)]];
  void function_constants() {
    for (const Attribute& a : attributes_) {
      std::string index;
      const size_t end = tokens_.next(a.end - 1), name = tokens_.previous(a.begin);
      if (!find_item(a, "function_constant", index) || !tokens_.is(end, ";") || name == Tokens::kNone) continue;
      const size_t begin = statement_begin(name);
      const std::string word = tokens_[name].text;
      const std::string declared = join("static ", type_of(begin, name), word, "; static bool ", word, "_is_defined;");
      for (const Constant& other : constants_)
        if (other.index == index)
          fail(ErrorCode::unsupported, tokens_.place(name), "function constants '", other.name, "' and '", word, "' both have index ",
               index);
      constants_.push_back({word, tokens_.qualifier(begin) + word, index});
      depends_on_constants_[word] = {word};
      tokens_.remove(begin, end + 1);
      tokens_[begin].before += declared;
    }
  }

  // constant bool both = has_bias && has_residual; at namespace scope: initialised after the function constants.
  void dependent_constants() {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (!tokens_.counts(i) || !tokens_.is(i, "constant")) continue;
      size_t equals = i, end = i;
      while (end < tokens_.size() && !tokens_.is(end, ";") && !tokens_.is(end, "{") && !tokens_.is(end, ")")) {
        if (tokens_.is(end, "=") && equals == i) equals = end;
        end = tokens_.next(end);
      }
      if (equals == i || !tokens_.is(end, ";")) continue;
      std::set<std::string> needed;
      for (size_t k = equals; k < end; k = tokens_.next(k)) {
        if (auto found = depends_on_constants_.find(tokens_[k].text); found != depends_on_constants_.end()) {
          needed.insert(found->second.begin(), found->second.end());
        }
      }
      if (needed.empty() || !tokens_.at_namespace_scope(i)) continue;
      const size_t name = tokens_.previous(equals), begin = statement_begin(i);
      const std::string word = tokens_[name].text, setter = "weft_sim_set_" + word;
      const std::string declared = join("static ", type_of(begin, name), word, "; static void ", setter, "() { ", word, " = ",
                                        tokens_.text(tokens_.next(equals), end), "; }");
      depends_on_constants_[word] = needed;
      setters_ += tokens_.qualifier(begin) + setter + "(); ";
      tokens_.remove(begin, end + 1);
      tokens_[begin].before += declared;
    }
  }

  // threadgroup float tile[8][32], sums[4]; but no pointers or parameters.
  void threadgroup_variables() {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (!tokens_.counts(i) || !tokens_.is(i, "threadgroup")) continue;
      const size_t begin = statement_begin(i);
      const bool only_qualifiers = begin == i || (tokens_.next(begin) == i && (tokens_.is(begin, "static") || tokens_.is(begin, "const")));
      if (!only_qualifiers) continue;
      int depth = 0;
      size_t after = tokens_.next(i);  // token after the first name
      for (; after < tokens_.size(); after = tokens_.next(after)) {
        depth += tokens_.is(after, "<") - tokens_.is(after, ">");
        if (depth == 0 && tokens_[after].kind == Token::Kind::sign &&
            std::string_view(";=[,*&()").find(tokens_[after].text) != std::string_view::npos)
          break;
      }
      if (after >= tokens_.size() || tokens_.is(after, "*") || tokens_.is(after, "&") || tokens_.is(after, "(") || tokens_.is(after, ")"))
        continue;
      declare(i, begin, tokens_.previous(after));
    }
  }

  void declare(size_t keyword, size_t begin, size_t name) {
    const std::string type = "weft_sim_type_" + std::to_string(variables_);
    std::string declared = join("using ", type, " = ", type_of(tokens_.next(keyword), name), ";");
    size_t end = name;
    for (;;) {
      const std::string word = tokens_[name].text;
      std::string extents;
      for (end = tokens_.next(name); tokens_.is(end, "["); end = tokens_.next(tokens_.closing(end)))
        extents += tokens_.text(end, tokens_.closing(end) + 1);
      if (tokens_.is(end, "="))
        fail(ErrorCode::unsupported, tokens_.place(name), "threadgroup variable '", word, "' cannot have an initialiser");
      declared += join(" auto& ", word, " = ::weft_sim::threadgroup_variable<", type, extents, ">(", variables_++, ", ", quoted(word),
                       ", {", quoted(tokens_.file(name)), ", ", tokens_[name].line, ", 0});");
      if (!tokens_.is(end, ",")) break;
      name = tokens_.next(end);
    }
    tokens_.remove(begin, end + 1);
    tokens_[begin].before += declared;
  }

  // Removes duplicate definitions in [begin, end): overloads that differ only in address spaces would be defined twice.
  void merge_overloads(size_t begin, size_t end, const std::string& scope, std::map<std::string, Overload>& seen) {
    size_t header = begin;
    for (size_t i = begin; i < end; ++i) {
      if (!tokens_.counts(i) || tokens_[i].kind != Token::Kind::sign) continue;
      if (tokens_.is(i, ";")) header = i + 1;
      if (tokens_.is(i, "(") || tokens_.is(i, "[")) i = tokens_.closing(i);
      if (!tokens_.is(i, "{")) continue;
      const size_t close = tokens_.closing(i);
      bool is_namespace = false, is_type = false, has_parameters = false;
      for (size_t k = header; k < i; ++k) {
        if (!tokens_.counts(k)) continue;
        is_namespace |= tokens_.is(k, "namespace");
        is_type |= (tokens_.is(k, "struct") || tokens_.is(k, "class")) && !has_parameters && !tokens_.is(tokens_.previous(k), "<") &&
                   !tokens_.is(tokens_.previous(k), ",");
        has_parameters |= tokens_.is(k, "(");
      }
      if (is_namespace || (is_type && !has_parameters)) {
        merge_overloads(i + 1, close, scope + plain(header, i), seen);
      } else if (has_parameters) {
        merge_overload(header, i, close, scope, seen);
      }
      i = close;
      header = close + 1;
    }
  }

  void merge_overload(size_t header, size_t open, size_t close, const std::string& scope, std::map<std::string, Overload>& seen) {
    const Overload here{tokens_.text(header, open), plain(open, close + 1)};
    const auto [first, is_new] = seen.emplace(scope + "|" + plain(header, open), here);
    if (is_new || first->second.header == here.header) return;
    if (first->second.body != here.body) {
      fail(ErrorCode::unsupported, tokens_.place(tokens_.next(header)),
           "overloads that differ only in address spaces must have the same body");
    }
    tokens_.remove(header, close + 1);
  }

  // The tokens without address spaces; `constant` and `const` count as one.
  std::string plain(size_t begin, size_t end) const {
    std::string result, last;
    for (size_t i = begin; i < end; ++i) {
      if (!tokens_.counts(i)) continue;
      const std::string word = tokens_.is(i, "constant") ? "const" : is_address_space(tokens_[i].text) ? "" : tokens_[i].text;
      if (word.empty() || (word == "const" && last == "const")) continue;
      result += (last = word) + " ";
    }
    return result;
  }

  // Collects the words inside of every function, by the function's name: they tell which constants a kernel may need.
  void collect_bodies() {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (!tokens_.counts(i) || !tokens_.is(i, "(") || !tokens_.is_word(tokens_.previous(i))) continue;
      const size_t name = tokens_.previous(i);
      if (tokens_.is(name, "if") || tokens_.is(name, "for") || tokens_.is(name, "while") || tokens_.is(name, "switch")) continue;
      size_t open = tokens_.next(tokens_.closing(i));
      while (tokens_.is(open, "const")) open = tokens_.next(open);
      if (!tokens_.is(open, "{")) continue;
      std::set<std::string>& words = bodies_[tokens_[name].text];
      for (size_t k = open, close = tokens_.closing(open); k < close; k = tokens_.next(k)) {
        if (tokens_.is_word(k)) words.insert(tokens_[k].text);
      }
    }
  }

  std::set<std::string> constants_of(const std::string& kernel) const {
    std::set<std::string> visited{kernel}, needed;
    std::vector<std::string> todo{kernel};
    while (!todo.empty()) {
      const auto body = bodies_.find(todo.back());
      todo.pop_back();
      if (body == bodies_.end()) continue;
      for (const std::string& word : body->second) {
        if (auto found = depends_on_constants_.find(word); found != depends_on_constants_.end())
          needed.insert(found->second.begin(), found->second.end());
        if (visited.insert(word).second) todo.push_back(word);
      }
    }
    return needed;
  }

  std::string argument(const KernelDefinition& kernel, const KernelParameter& p) const {
    static const std::map<std::string, std::string> kBuiltins{
        {"thread_position_in_grid", "::weft_sim::Position{t->position_in_grid}"},
        {"thread_position_in_threadgroup", "::weft_sim::Position{t->position_in_group}"},
        {"threadgroup_position_in_grid", "::weft_sim::Position{t->group}"},
        {"threads_per_threadgroup", "::weft_sim::Position{t->group_size}"},
        {"dispatch_threads_per_threadgroup", "::weft_sim::Position{t->group_size}"},
        {"threads_per_grid", "::weft_sim::Position{t->grid}"},
        {"threadgroups_per_grid", "::weft_sim::Position{t->groups}"},
        {"thread_index_in_threadgroup", "t->index"},
        {"thread_index_in_simdgroup", "t->lane"},
        {"simdgroup_index_in_threadgroup", "t->simdgroup"},
        {"simdgroups_per_threadgroup", "t->simdgroups"},
        {"dispatch_simdgroups_per_threadgroup", "t->simdgroups"},
        {"threads_per_simdgroup", "32u"},
        {"thread_execution_width", "32u"}};
    if (p.kind == KernelParameter::Kind::threadgroup) return join("::weft_sim::BufferPointer{t->threadgroup[", p.index, "]}");
    if (p.kind == KernelParameter::Kind::buffer && !p.reference)
      return join("::weft_sim::BufferPointer{t->bindings->pointer[", p.index, "]}");
    if (p.kind == KernelParameter::Kind::buffer) {
      return join("::weft_sim::BufferReference{t->bindings->pointer[", p.index, "], t->bindings->bytes[", p.index, "], ",
                  quoted(join("parameter '", p.name, "' has no buffer bound, or one smaller than its type")), ", ",
                  p.optional ? "true" : "false", ", {", quoted(p.file), ", ", p.line, ", 0}}");
    }
    const auto found = kBuiltins.find(p.builtin);
    if (found == kBuiltins.end())
      fail(ErrorCode::unsupported, kernel.name, "the simulator has no [[", p.builtin, "]] (parameter '", p.name, "')");
    return found->second;
  }

  // Text appended to the source: an entry for every kernel, and the tables of shim/abi.h.
  std::string entries() const {
    std::string code, kernels, constants;
    int count = 0;
    for (const KernelInstance& instance : kernels_.instances) code += entry(instance, count++, kernels);
    for (const Constant& c : constants_) {
      constants += join("    {", quoted(c.name), ", ", c.index, ", &", c.qualified, ", weft_sim::constant_type<decltype(", c.qualified,
                        ")>(), &", c.qualified, "_is_defined},\n");
    }
    return join(code, "static const weft_sim::Kernel weft_sim_kernels[] = {\n", kernels, "    {}};\n",  //
                "static const weft_sim::FunctionConstant weft_sim_function_constants[] = {\n", constants, "    {}};\n",
                "static void weft_sim_initialize() { ", setters_, "}\n",
                "extern \"C\" __attribute__((visibility(\"default\"))) const weft_sim::Module weft_sim_module = {weft_sim::kVersion, "
                "weft_sim_kernels, ",
                count, ", weft_sim_function_constants, ", constants_.size(), ", ", variables_,
                ", &weft_sim::runtime, weft_sim_initialize};\n");
  }

  std::string entry(const KernelInstance& instance, int id, std::string& table) const {
    const auto found = kernels_.definitions.find(instance.definition);
    if (found == kernels_.definitions.end())
      fail(ErrorCode::unsupported, instance.host_name, "instantiates '", instance.definition, "', which is not a kernel of this source");
    const KernelDefinition& kernel = found->second;
    std::string arguments, parameters, needed;
    for (const KernelParameter& p : kernel.parameters) {
      arguments += join(arguments.empty() ? "" : ", ", argument(kernel, p));
      parameters += join("{", int(p.kind), ", ", p.index.empty() ? "0" : p.index, ", ", quoted(p.name), "}, ");
    }
    for (const std::string& name : constants_of(kernel.name)) needed += join(quoted(name), ", ");
    table += join("    {", quoted(instance.host_name), ", weft_sim_entry_", id, ", weft_sim_parameters_", id, ", ",
                  kernel.parameters.size(), ", ", kernel.most_threads, ", weft_sim_constants_", id, "},\n");
    return join("static void weft_sim_entry_", id,
                "(const weft_sim::Thread* t) { t->frame = __builtin_frame_address(0); ::", instance.callee, "(", arguments, "); }\n",
                "static const weft_sim::Parameter weft_sim_parameters_", id, "[] = {", parameters, "{2, 0, \"\"}};\n",
                "static const char* const weft_sim_constants_", id, "[] = {", needed, "nullptr};\n");
  }

  Tokens tokens_;
  Attributes attributes_;
  Kernels kernels_;
  std::vector<Constant> constants_;
  std::map<std::string, std::set<std::string>> depends_on_constants_;  // by name: the function constants it depends on
  std::map<std::string, std::set<std::string>> bodies_;
  std::string setters_;
  int variables_ = 0;
};

}  // namespace

std::string rewrite(const std::string& preprocessed) { return Rewriter(preprocessed).run(); }

}  // namespace weft::metal::sim
