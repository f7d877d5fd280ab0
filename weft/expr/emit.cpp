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
        pieces_(chunks_per_thread(graph, signature, dialect)),
        used_(inputs_used(graph)) {}

  std::string run() {
    header();
    access();
    definitions();
    compute(false);
    if (quick()) compute(true);
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
  // Whether the lanes of a simdgroup share loads.
  bool shares() const {
    bool some = axes() > 0;
    for (int i = 0; i < graph_.inputs; ++i) some |= used(i) && !operand(i).along;
    return some && say_.lane;
  }

  void header() {
    put("// Written by weft for ", say_.name, ": inputs");
    for (int i = 0; i < graph_.inputs; ++i) put(i ? ", " : " ", name(operand(i).dtype), operand(i).along ? "" : " per row");
    put("; outputs");
    for (int i = 0; i < outputs(); ++i) put(i ? ", " : " ", name(signature_.outputs[size_t(i)]));
    put("; ", std::to_string(graph_.parameters), " parameters; rows over ", std::to_string(axes()), " axes.\n");
  }

  // The element types in use with their load and store functions, and the structs behind the pointers.
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
    if (axes() > 0)
      put(", extent[", std::to_string(axes()), "], stride[", std::to_string(graph_.inputs + outputs()), "][", std::to_string(axes()), "]");
    put(axes() > 0 && say_.lane ? ", run; };\n" : "; };\n");
    if (graph_.parameters > 0) put("struct Parameters { float p[", std::to_string(graph_.parameters), "]; };\n");
  }

  // ---- the expression, as a function of one element

  std::string literal(float value) const {
    if (!std::isfinite(value)) {
      char bits[16];
      std::snprintf(bits, sizeof bits, "0x%08xu", std::bit_cast<uint32_t>(value));
      std::string text = say_.bits;
      return text.replace(text.find('$'), 1, bits);
    }
    char digits[32];  // shortest text that reads back as the same float, in any locale
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

  const char* quick(const Node& n) const { return quick_spelling(dialect_, n.op); }
  // The value without its sign.
  int magnitude(int node) const {
    while (graph_[node].op == Op::neg || graph_[node].op == Op::abs) node = graph_[node].a;
    return node;
  }
  // The smallest limit of the quick functions of +-this value; 0: there is none.
  float limit(int magnitude_of) const {
    float least = 0;
    for (int i = 0; i < graph_.size(); ++i) {
      const float limit = quick_limit(dialect_, graph_[i].op);
      if (limit > 0 && magnitude(graph_[i].a) == magnitude_of && (least == 0 || limit < least)) least = limit;
    }
    return least;
  }
  // Whether vectors have a branch-free version.
  bool quick() const {
    bool any = false;
    for (int i = 0; i < graph_.size(); ++i) any |= quick(graph_[i]) != nullptr;
    return any && width_ > 1;
  }

  std::string expression(const Node& n, const char* spelling) const {
    std::string text;
    for (const char* s = spelling; *s != 0; ++s) {
      if (*s != '$')
        text += *s;
      else
        text += value(*++s == 'a' ? n.a : *s == 'b' ? n.b : n.c);
    }
    return text;
  }

  void definitions() {
    std::vector<const char*> defined;
    for (int i = 0; i < graph_.size(); ++i)
      for (const char* definition : helpers(dialect_, graph_[i].op))
        if (std::find(defined.begin(), defined.end(), definition) == defined.end()) {
          defined.push_back(definition);
          put(definition);
        }
    put("\n");
  }

  void compute(bool quickly) {
    put(say_.function, quickly ? "void compute_quick(" : "void compute(");
    for (int i = 0; i < graph_.inputs; ++i)
      if (used(i)) put("float ", numbered("x", i), ", ");
    for (int i = 0; i < graph_.parameters; ++i) put("float ", numbered("p", i), ", ");
    for (int i = 0; i < outputs(); ++i) put(i ? ", " : "", say_.reference, " ", numbered("y", i));
    put(quickly ? ", bool& rare) {\n" : ") {\n");
    std::vector<int> looked_at;
    for (int i = 0; i < graph_.size(); ++i) {
      const Node& n = graph_[i];
      if (operands(n.op) == 0) continue;
      if (const int x = magnitude(n.a);
          quickly && quick_limit(dialect_, n.op) > 0 && std::find(looked_at.begin(), looked_at.end(), x) == looked_at.end()) {
        looked_at.push_back(x);
        put("  rare |= !(fabsf(", value(x), ") < ", literal(limit(x)), ");\n");
      }
      put("  const float ", value(i), " = ", expression(n, quickly && quick(n) ? quick(n) : spelling(dialect_, n.op)), ";\n");
    }
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
    if (shares()) put(separator, say_.lane);
    put(") {\n");
  }

  // The pointer to element `column` of this row in operand i (inputs first, then outputs).
  std::string address(int i, const std::string& column) const {
    std::string text = i < graph_.inputs ? numbered("x", i) : numbered("y", i - graph_.inputs);
    if (axes() > 0) text += numbered(" + at", i);
    return i >= graph_.inputs || operand(i).along ? text + " + " + column : text;
  }

  // Position of this chunk: row and first column i, and for each operand the start of its row. For a run of rows: of its first row.
  void place() {
    const std::string width = std::to_string(width_);
    if (axes() == 0) return put("    const ", say_.integer, " i = chunk * ", width, ";\n");
    put("    const ", say_.small, " row = (", say_.small, ")chunk / (", say_.small, ")layout.row_chunks;\n");
    put("    const ", say_.integer, " i = (chunk - row * layout.row_chunks) * ", width, ";\n");
    std::string rest = "row";
    if (shares()) {
      put("    const uint runs = (uint)((layout.extent[", last_axis(), "] + layout.run - 1) / layout.run), q = row / runs;\n");
      put("    const long first = (row - q * runs) * layout.run;\n");
      rest = "q";
    }
    for (int axis = axes() - (shares() ? 2 : 1); axis > 0; --axis) {
      const std::string n = std::to_string(axis), next = "q" + n, extent = join("(", say_.small, ")layout.extent[", n, "]");
      put("    const ", say_.small, " ", next, " = ", rest, " / ", extent, ", c", n, " = ", rest, " - ", next, " * ", extent, ";\n");
      rest = next;
    }
    for (int i = 0; i < graph_.inputs + outputs(); ++i) {
      if (i < graph_.inputs && !used(i)) continue;
      const auto stride = [&](int axis) { return join(" * layout.stride[", i, "][", axis, "]"); };
      put(shares() ? "    long " : join("    const ", say_.integer, " "), numbered("at", i), " = ");
      if (!shares() || axes() > 1) put(rest, stride(0));
      for (int axis = 1; axis < axes() - shares(); ++axis) put(" + c", std::to_string(axis), stride(axis));
      if (shares()) put(axes() > 1 ? " + " : "", "first", stride(axes() - 1));
      put(";\n");
    }
  }

  // The first column of a piece.
  static std::string column(int piece) { return piece == 0 ? "i" : piece == 1 ? "i + apart" : join("i + ", piece, " * apart"); }

  // Calls compute() from v0, v1, ... to r0, r1, ...; the suffix selects an element of those that are vectors.
  void call(const char* suffix, bool quickly) {
    put(quickly ? "compute_quick(" : "compute(");
    for (int i = 0; i < graph_.inputs; ++i)
      if (used(i)) put(numbered("v", i), operand(i).along ? suffix : "", ", ");
    for (int i = 0; i < graph_.parameters; ++i) put("parameters.p[", std::to_string(i), "], ");
    for (int i = 0; i < outputs(); ++i) put(i ? ", " : "", numbered("r", i), suffix);
    put(quickly ? ", rare);\n" : ");\n");
  }

  // Processes a vector or one element: loads everything, computes, stores. All reads come before any write, so that an output may alias an
  // input. A vector computed by the quick functions is stored, and done, unless one of them set `rare`.
  void body(bool vector) {
    const int elements = width_ * pieces_;
    const std::string count = vector ? join("[", elements, "]") : std::string(), width = std::to_string(width_);
    // Emits one statement per chunk, with the column of its first element and the offset in the arrays.
    const auto each_piece = [&](auto&& statement) {
      if (!vector) return statement("j", std::string());
      for (int piece = 0; piece < pieces_; ++piece) statement(column(piece), piece ? join(" + ", piece * width_) : std::string());
    };
    for (int i = 0; i < graph_.inputs; ++i) {
      if (!used(i) || !operand(i).along) continue;
      if (vector) put("      float ", numbered("v", i), count, ";\n");
      each_piece([&](const std::string& column, const std::string& place) {
        if (vector)
          put("      load<", width, ">(", address(i, column), ", ", numbered("v", i), place, ");\n");
        else
          put("      const float ", numbered("v", i), " = load(", address(i, column), ");\n");
      });
    }
    put("      float ");
    for (int i = 0; i < outputs(); ++i) put(i ? ", " : "", numbered("r", i), count);
    put(";\n");
    const bool quickly = vector && quick();
    if (quickly) put("      bool rare = false;\n");
    if (vector)
      put(say_.unroll, "      for (int k = 0; k < ", std::to_string(elements), "; ++k) ");
    else
      put("      ");
    call(vector ? "[k]" : "", quickly);
    if (quickly) put("      if (!rare) {\n");
    const auto stores = [&](const char* how) {
      for (int i = 0; i < outputs(); ++i)
        each_piece([&](const std::string& column, const std::string& place) {
          const std::string name = vector ? join("store<", width, ">(") : "store(";
          put(quickly ? "        " : "      ", name, numbered("r", i), place, ", ", address(graph_.inputs + i, column), how, ");\n");
        });
    };
    if (vector && pieces_ > 1) {  // tested once, not at every store
      put("      if (past_caches) {\n");
      stores(", true");
      put("      } else {\n");
      stores(", false");
      put("      }\n");
    } else {
      stores(vector ? ", past_caches" : "");
    }
    if (vector) put(quickly ? "        " : "      ", say_.next, quickly ? "\n      }\n" : "\n");
  }

  std::string last_axis() const { return std::to_string(axes() - 1); }

  // If lanes share loads: each thread gets a run of rows along the last axis and keeps the values that do not change along it, and a value
  // per row is read by the first lane that has the row. All lanes of a simdgroup iterate together.
  void kernel_in_runs() {
    put(say_.start_together);
    place();
    put("    const ushort leader = ushort(lane - min(long(lane), i));\n    float");
    for (int i = 0, n = 0; i < graph_.inputs; ++i)
      if (used(i)) put(n++ ? ", " : " ", numbered("v", i), " = 0.0f");
    put(";\n    for (long r = 0; r < layout.run; ++r) {\n");
    put("      const bool here = inside && first + r < layout.extent[", last_axis(), "];\n");
    const auto renewed = [&](int i) {
      return join("if (r == 0 || layout.stride[", i, "][", last_axis(), "] != 0) ", numbered("v", i), " = ");
    };
    for (int i = 0; i < graph_.inputs; ++i)
      if (used(i) && !operand(i).along)
        put("      ", renewed(i), "simd_shuffle(here && lane == leader ? load(", address(i, ""), ") : 0.0f, leader);\n");
    put("      if (here) {\n");
    for (int i = 0; i < graph_.inputs; ++i)
      if (used(i) && operand(i).along) put("        ", renewed(i), "load(", address(i, "i"), ");\n");
    put("        float ");
    for (int i = 0; i < outputs(); ++i) put(i ? ", " : "", numbered("r", i));
    put(";\n        ");
    call("", false);
    for (int i = 0; i < outputs(); ++i) put("        store(", numbered("r", i), ", ", address(graph_.inputs + i, "i"), ");\n");
    put("      }\n");
    for (int i = 0; i < graph_.inputs + outputs(); ++i)
      if (i >= graph_.inputs || used(i))
        put("      ", numbered("at", i), " += layout.stride[", std::to_string(i), "][", last_axis(), "];\n");
    put("    }\n  }\n}\n");
  }

  void kernel() {
    const auto along = std::count_if(signature_.inputs.begin(), signature_.inputs.end(), [](const Operand& o) { return o.along; });
    put(say_.kernel, pieces_ > 1 && along + outputs() <= 2 ? say_.filling : "", kernel_name_);
    arguments();
    if (shares() && axes() > 0) return kernel_in_runs();
    if (shares())
      for (int i = 0; i < graph_.inputs; ++i)
        if (used(i) && !operand(i).along)
          put("  const float ", numbered("v", i), " = simd_broadcast(lane == 0 ? load(", address(i, ""), ") : 0.0f, 0);\n");
    std::string start = pieces_ > 1 ? say_.start_of_several : say_.start;
    if (pieces_ > 1) start.replace(start.find('$'), 1, std::to_string(pieces_));
    put(start);
    place();
    for (int i = 0; i < graph_.inputs; ++i)
      if (used(i) && !operand(i).along && !shares()) put("    const float ", numbered("v", i), " = load(", address(i, ""), ");\n");
    if (width_ > 1) {
      put("    const bool past_caches = layout.aligned == 2;\n");
      const std::string width = std::to_string(width_);
      if (pieces_ > 1) put("    const ", say_.integer, " apart = (", say_.integer, ")blockDim.x * ", width, ";\n");
      put("    if (layout.aligned && ", column(pieces_ - 1), " + ", width, " <= layout.columns) {\n");
      body(true);
      put("    }\n");
      if (pieces_ > 1) put(say_.one_by_one, "    for (", say_.integer, " start = i; start <= ", column(pieces_ - 1), "; start += apart)\n");
      const char* from = pieces_ > 1 ? "start" : "i";
      put(say_.one_by_one, "    for (", say_.integer, " j = ", from, "; j < ", from, " + ", width, " && j < layout.columns; ++j) {\n");
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
  const int width_, pieces_;
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

int chunks_per_thread(const Graph& graph, const Signature& signature, Dialect dialect) {
  constexpr int kMany = 3, kElements = 16;
  int functions = 0;
  for (int i = 0; i < graph.size(); ++i)
    functions += graph[i].op != Op::reciprocal && quick_spelling(dialect, graph[i].op) != nullptr;  // a reciprocal is as cheap as a product
  return signature.axes == 0 && functions >= kMany ? kElements / vector_width(signature, dialect) : 1;
}

std::vector<int64_t> words(const Layout& layout, int vector_width) {
  const int64_t row_chunks = (layout.columns + vector_width - 1) / vector_width;
  int64_t chunks = row_chunks;
  for (int64_t extent : layout.extent) chunks *= extent;
  if (layout.run > 0) chunks = chunks / layout.extent.back() * ((layout.extent.back() + layout.run - 1) / layout.run);
  check(layout.extent.empty() || chunks < (int64_t(1) << 32), "elementwise", "cannot index ", chunks,
        " chunks over several axes; split the launch");
  std::vector<int64_t> all = {chunks, row_chunks, layout.columns, layout.aligned ? layout.past_caches ? 2 : 1 : 0};
  all.insert(all.end(), layout.extent.begin(), layout.extent.end());
  if (!layout.extent.empty())
    for (const std::vector<int64_t>& strides : layout.stride) all.insert(all.end(), strides.begin(), strides.end());
  if (layout.run > 0) all.push_back(layout.run);
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
