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
  int axes() const { return signature_.axes; }

  void header() {
    put("// Written by weft for ", say_.name, ": inputs");
    for (int i = 0; i < graph_.inputs; ++i) put(i ? ", " : " ", name(operand(i).dtype), operand(i).along ? "" : " per row");
    put("; outputs");
    for (int i = 0; i < outputs(); ++i) put(i ? ", " : " ", name(signature_.outputs[size_t(i)]));
    put("; ", std::to_string(graph_.parameters), " parameters; rows over ", std::to_string(axes()), " axes.\n");
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
    put("struct Layout { ", say_.integer, " chunks, row_chunks, columns, aligned");
    if (axes() > 0) put(", extent[", std::to_string(axes()), "], stride[", std::to_string(graph_.inputs + outputs()), "][", std::to_string(axes()), "]");
    put("; };\n");
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
    std::vector<const char*> defined;
    for (int i = 0; i < graph_.size(); ++i)
      for (const char* definition : helpers(dialect_, graph_[i].op))
        if (std::find(defined.begin(), defined.end(), definition) == defined.end()) {
          defined.push_back(definition);
          put(definition);
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
    uniform("Layout", "layout");
    if (graph_.parameters > 0) uniform("Parameters", "parameters");
    if (say_.position) put(separator, say_.position);
    put(") {\n");
  }

  // The pointer to element `column` of this row in operand i, counted over inputs, then outputs.
  std::string address(int i, const char* column) const {
    std::string text = i < graph_.inputs ? numbered("x", i) : numbered("y", i - graph_.inputs);
    if (axes() > 0) text += numbered(" + at", i);
    return i >= graph_.inputs || operand(i).along ? text + " + " + column : text;
  }

  // Where this chunk lies: row and first column i, and for each operand the start of its row.
  void place() {
    const std::string width = std::to_string(width_);
    if (axes() == 0) return put("    const ", say_.integer, " i = chunk * ", width, ";\n");
    put("    const ", say_.small, " row = (", say_.small, ")chunk / (", say_.small, ")layout.row_chunks;\n");
    put("    const ", say_.integer, " i = (chunk - row * layout.row_chunks) * ", width, ";\n");
    std::string rest = "row";
    for (int axis = axes() - 1; axis > 0; --axis) {
      const std::string n = std::to_string(axis), next = "q" + n, extent = join("(", say_.small, ")layout.extent[", n, "]");
      put("    const ", say_.small, " ", next, " = ", rest, " / ", extent, ", c", n, " = ", rest, " - ", next, " * ", extent, ";\n");
      rest = next;
    }
    for (int i = 0; i < graph_.inputs + outputs(); ++i) {
      if (i < graph_.inputs && !used(i)) continue;
      put("    const ", say_.integer, " ", numbered("at", i), " = ", rest, " * layout.stride[", std::to_string(i), "][0]");
      for (int axis = 1; axis < axes(); ++axis) put(" + c", std::to_string(axis), " * layout.stride[", std::to_string(i), "][", std::to_string(axis), "]");
      put(";\n");
    }
  }

  // compute() from v0, v1, ... to r0, r1, ...; the suffix picks an element of those that are vectors.
  void call(const char* suffix) {
    put("compute(");
    for (int i = 0; i < graph_.inputs; ++i)
      if (used(i)) put(numbered("v", i), operand(i).along ? suffix : "", ", ");
    for (int i = 0; i < graph_.parameters; ++i) put("parameters.p[", std::to_string(i), "], ");
    for (int i = 0; i < outputs(); ++i) put(i ? ", " : "", numbered("r", i), suffix);
    put(");\n");
  }

  // A vector or one element: load everything, compute, store. Everything is read before anything is written, so that an
  // output may lie where an input lies.
  void body(bool vector) {
    const std::string count = vector ? join("[", width_, "]") : std::string();
    const char* column = vector ? "i" : "j";
    for (int i = 0; i < graph_.inputs; ++i) {
      if (!used(i) || !operand(i).along) continue;
      if (vector)
        put("      float ", numbered("v", i), count, ";\n      load(", address(i, column), ", ", numbered("v", i), ", past_caches);\n");
      else
        put("      const float ", numbered("v", i), " = load(", address(i, column), ");\n");
    }
    put("      float ");
    for (int i = 0; i < outputs(); ++i) put(i ? ", " : "", numbered("r", i), count);
    put(";\n");
    if (vector)
      put(say_.unroll, "      for (int k = 0; k < ", std::to_string(width_), "; ++k) ");
    else
      put("      ");
    call(vector ? "[k]" : "");
    for (int i = 0; i < outputs(); ++i) put("      store(", numbered("r", i), ", ", address(graph_.inputs + i, column), vector ? ", past_caches" : "", ");\n");
  }

  void kernel() {
    put(say_.kernel, kernel_name_);
    arguments();
    put(say_.start);
    put("  for (", say_.integer, " chunk = first; chunk < layout.chunks; chunk += step) {\n");
    place();
    for (int i = 0; i < graph_.inputs; ++i)
      if (used(i) && !operand(i).along) put("    const float ", numbered("v", i), " = load(", address(i, ""), ");\n");
    if (width_ > 1) {
      put("    const bool past_caches = layout.aligned == 2;\n");
      put("    if (layout.aligned && i + ", std::to_string(width_), " <= layout.columns) {\n");
      body(true);
      put("      continue;\n    }\n");
      put("    for (", say_.integer, " j = i; j < i + ", std::to_string(width_), " && j < layout.columns; ++j) {\n");
    } else {
      put("    {\n      const ", say_.integer, " j = i;\n");
    }
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
    if (o.along) narrowest = std::min(narrowest, size_of(o.dtype));
  for (DType dtype : signature.outputs) narrowest = std::min(narrowest, size_of(dtype));
  return int(16 / narrowest);
}

std::vector<int64_t> words(const Layout& layout, int vector_width) {
  const int64_t row_chunks = (layout.columns + vector_width - 1) / vector_width;
  int64_t chunks = row_chunks;
  for (int64_t extent : layout.extent) chunks *= extent;
  check(layout.extent.empty() || chunks < (int64_t(1) << 32), "elementwise", "cannot count ", chunks, " chunks over several axes; launch it in parts");
  std::vector<int64_t> all = {chunks, row_chunks, layout.columns, layout.aligned ? layout.past_caches ? 2 : 1 : 0};
  all.insert(all.end(), layout.extent.begin(), layout.extent.end());
  if (!layout.extent.empty())
    for (const std::vector<int64_t>& strides : layout.stride) all.insert(all.end(), strides.begin(), strides.end());
  return all;
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
