#include "weft/expr/emit.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "weft/base/check.h"
#include "weft/expr/dialects.h"
#include "weft/expr/simplify.h"

namespace weft::expr {
namespace {

const char* broadcast_name(Broadcast broadcast) {
  switch (broadcast) {
    case Broadcast::full: return "full";
    case Broadcast::row: return "row";
    case Broadcast::column: return "column";
    case Broadcast::scalar: return "scalar";
  }
  return "";
}

std::string numbered(std::string letter, int i) { return letter += std::to_string(i); }

class Emitter {
 public:
  Emitter(const Graph& graph, const Signature& signature, Dialect dialect, std::string_view kernel_name)
      : graph_(graph),
        signature_(signature),
        dialect_(dialect),
        say_(spelling(dialect)),
        kernel_name_(kernel_name),
        width_(vector_width(signature, dialect)),
        used_(inputs_used(graph)) {}

  std::string run() {
    header();
    access();
    compute();
    kernel();
    return std::move(text_);
  }

 private:
  template <class... Parts>
  void put(const Parts&... parts) {
    ((text_ += parts), ...);
  }

  const char* type(DType dtype) const {
    return dtype == DType::f32 ? say_.f32_type : dtype == DType::bf16 ? say_.bf16_type : say_.f16_type;
  }
  int outputs() const { return int(graph_.outputs.size()); }
  const Operand& operand(int i) const { return signature_.inputs[size_t(i)]; }
  bool used(int i) const { return used_[size_t(i)]; }
  bool hoisted(int i) const { return operand(i).broadcast == Broadcast::column || operand(i).broadcast == Broadcast::scalar; }

  void header() {
    put("// Written by weft for ", say_.name, ": inputs");
    for (int i = 0; i < graph_.inputs; ++i) put(i ? ", " : " ", name(operand(i).dtype), " ", broadcast_name(operand(i).broadcast));
    put("; outputs");
    for (int i = 0; i < outputs(); ++i) put(i ? ", " : " ", name(signature_.outputs[size_t(i)]));
    put("; ", std::to_string(graph_.parameters), " parameters.\n");
  }

  // The types in use and how to load and store them, and the structs behind the pointers.
  void access() {
    const auto uses = [&](DType dtype) {
      return std::any_of(signature_.inputs.begin(), signature_.inputs.end(), [&](const Operand& o) { return o.dtype == dtype; }) ||
             std::find(signature_.outputs.begin(), signature_.outputs.end(), dtype) != signature_.outputs.end();
    };
    put(say_.prologue);
    if (uses(DType::f32)) put(say_.f32_access);
    if (uses(DType::bf16)) put(say_.bf16_access);
    if (uses(DType::f16)) put(say_.f16_access);
    if (say_.vectors) put(say_.vectors);
    put("struct Extent { ", say_.integer, " rows, columns, vectors; };\n");
    if (graph_.parameters > 0) put("struct Parameters { float p[", std::to_string(graph_.parameters), "]; };\n");
  }

  // ---- the expression, as one function of one element

  std::string literal(float value) const {
    if (!std::isfinite(value)) {
      char bits[16];
      std::snprintf(bits, sizeof bits, "0x%08xu", std::bit_cast<uint32_t>(value));
      std::string text = say_.bits;
      return text.replace(text.find('$'), 1, bits);
    }
    char digits[32];  // the shortest that reads back as the same float, in any locale
    std::string text(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    text += "f";
    return std::signbit(value) ? join("(", text, ")") : text;
  }

  std::string value(int node) const {
    const Node& n = graph_[node];
    switch (n.op) {
      case Op::input: return numbered("x", n.index);
      case Op::parameter: return numbered("p", n.index);
      case Op::constant: return literal(n.value);
      default: return numbered("t", node);
    }
  }

  std::string expression(const Node& n) const {
    std::string text;
    for (const char* s = spelling(dialect_, n.op); *s != 0; ++s) {
      if (*s != '$')
        text += *s;
      else
        text += value(*++s == 'a' ? n.a : *s == 'b' ? n.b : n.c);
    }
    return text;
  }

  void compute() {
    for (const Op op : {Op::log1p, Op::erf})
      for (int i = 0; i < graph_.size(); ++i)
        if (graph_[i].op == op && helper(dialect_, op) != nullptr) {
          put(helper(dialect_, op));
          break;
        }
    put("\n", say_.function, "void compute(");
    for (int i = 0; i < graph_.inputs; ++i)
      if (used(i)) put("float ", numbered("x", i), ", ");
    for (int i = 0; i < graph_.parameters; ++i) put("float ", numbered("p", i), ", ");
    for (int i = 0; i < outputs(); ++i) put(i ? ", " : "", say_.reference, " ", numbered("y", i));
    put(") {\n");
    for (int i = 0; i < graph_.size(); ++i)
      if (operands(graph_[i].op) > 0) put("  const float ", value(i), " = ", expression(graph_[i]), ";\n");
    for (int i = 0; i < outputs(); ++i) put("  ", numbered("y", i), " = ", value(graph_.outputs[size_t(i)]), ";\n");
    put("}\n\n");
  }

  // ---- the kernel around it

  void arguments() {
    int binding = 0;
    const auto bind = [&] { return say_.bindings ? join(" [[buffer(", binding++, ")]]") : std::string(); };
    const char* separator = "(";
    for (int i = 0; i < graph_.inputs; ++i, separator = ", ")
      put(separator, say_.from, type(operand(i).dtype), "* ", numbered("x", i), bind());
    for (int i = 0; i < outputs(); ++i, separator = ", ")
      put(separator, say_.to, type(signature_.outputs[size_t(i)]), "* ", numbered("y", i), bind());
    const auto uniform = [&](const char* struct_name, const char* argument) {
      if (say_.uniform)
        put(separator, say_.uniform, struct_name, "& ", argument, bind());
      else
        put(separator, struct_name, " ", argument);
    };
    uniform("Extent", "extent");
    if (graph_.parameters > 0) uniform("Parameters", "parameters");
    if (say_.position) put(separator, say_.position);
    put(") {\n");
  }

  // The pointer to what input i gives at column i of this row.
  std::string address(int i) const {
    switch (operand(i).broadcast) {
      case Broadcast::full: return numbered("x", i) + " + base + i";
      case Broadcast::row: return numbered("x", i) + " + i";
      case Broadcast::column: return numbered("x", i) + " + row";
      case Broadcast::scalar: return numbered("x", i);
    }
    return {};
  }

  void hoist(Broadcast broadcast, const char* indent) {
    for (int i = 0; i < graph_.inputs; ++i)
      if (used(i) && operand(i).broadcast == broadcast) put(indent, "const float ", numbered("v", i), " = load(", address(i), ");\n");
  }

  // compute() from v0, v1, ... to r0, r1, ...; the suffix picks an element of those that are vectors.
  void call(const char* suffix) {
    put("compute(");
    for (int i = 0; i < graph_.inputs; ++i)
      if (used(i)) put(numbered("v", i), hoisted(i) ? "" : suffix, ", ");
    for (int i = 0; i < graph_.parameters; ++i) put("parameters.p[", std::to_string(i), "], ");
    for (int i = 0; i < outputs(); ++i) put(i ? ", " : "", numbered("r", i), suffix);
    put(");\n");
  }

  // One trip of a column loop: load everything, compute, store. Everything is read before anything is written, so that
  // an output may lie where an input lies.
  void body(bool vector) {
    const std::string count = vector ? join("[", width_, "]") : std::string();
    for (int i = 0; i < graph_.inputs; ++i) {
      if (!used(i) || hoisted(i)) continue;
      if (vector)
        put("      float ", numbered("v", i), count, ";\n      load(", address(i), ", ", numbered("v", i), ");\n");
      else
        put("      const float ", numbered("v", i), " = load(", address(i), ");\n");
    }
    put("      float ");
    for (int i = 0; i < outputs(); ++i) put(i ? ", " : "", numbered("r", i), count);
    put(";\n");
    if (vector)
      put(say_.unroll, "      for (int k = 0; k < ", std::to_string(width_), "; ++k) ");
    else
      put("      ");
    call(vector ? "[k]" : "");
    for (int i = 0; i < outputs(); ++i) put("      store(", numbered("r", i), ", ", numbered("y", i), " + base + i);\n");
  }

  void kernel() {
    put(say_.kernel, kernel_name_);
    arguments();
    put(say_.start);
    hoist(Broadcast::scalar, "  ");
    put("  for (", say_.integer, " row = first_row; row < extent.rows; row += row_step) {\n");
    put("    const ", say_.integer, " base = row * extent.columns;\n");
    hoist(Broadcast::column, "    ");
    const std::string width = std::to_string(width_);
    if (width_ > 1) {
      put("    for (", say_.integer, " i = first * ", width, "; i < extent.vectors; i += step * ", width, ") {\n");
      body(true);
      put("    }\n");
    }
    put("    for (", say_.integer, " i = ", width_ > 1 ? "extent.vectors + " : "", "first; i < extent.columns; i += step) {\n");
    body(false);
    put("    }\n  }\n}\n");
  }

  const Graph& graph_;
  const Signature& signature_;
  const Dialect dialect_;
  const Spelling& say_;
  const std::string_view kernel_name_;
  const int width_;
  const std::vector<bool> used_;
  std::string text_;
};

}  // namespace

int vector_width(const Signature& signature, Dialect dialect) {
  if (spelling(dialect).vectors == nullptr) return 1;
  int64_t narrowest = 4;
  for (const Operand& o : signature.inputs)
    if (o.broadcast == Broadcast::full || o.broadcast == Broadcast::row) narrowest = std::min(narrowest, size_of(o.dtype));
  for (DType dtype : signature.outputs) narrowest = std::min(narrowest, size_of(dtype));
  return int(16 / narrowest);
}

int64_t vector_columns(const Signature& signature, Dialect dialect, int64_t rows, int64_t columns, bool aligned) {
  const int64_t width = vector_width(signature, dialect);
  if (width == 1 || !aligned) return 0;
  // Later rows start at 16 bytes only where rows are whole vectors.
  if (rows > 1 && columns % width != 0) return 0;
  return columns / width * width;
}

std::string emit(const Graph& graph, const Signature& signature, Dialect dialect, std::string_view kernel_name) {
  check(int(signature.inputs.size()) == graph.inputs, "emit", "the expression has ", graph.inputs, " inputs, the signature ",
        signature.inputs.size());
  check(!graph.outputs.empty() && signature.outputs.size() == graph.outputs.size(), "emit", "the expression has ", graph.outputs.size(),
        " outputs, the signature ", signature.outputs.size());
  for (const Operand& o : signature.inputs) check(is_float(o.dtype), "emit", "inputs are f32, bf16 or f16, got ", o.dtype);
  for (DType dtype : signature.outputs) check(is_float(dtype), "emit", "outputs are f32, bf16 or f16, got ", dtype);
  return Emitter(graph, signature, dialect, kernel_name).run();
}

}  // namespace weft::expr
