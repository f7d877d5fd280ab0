#include "cli/selection.h"

#include <set>

#include "weft/base/check.h"

namespace weft::cli {

void Selection::add_to(CLI::App& command) {
  command.add_option("--op", op, "Only this op (the name of its folder)");
  command.add_option("--dtype", dtype, "Only this dtype: f32, bf16, f16, ...");
  command.add_option("--case", name, "Only cases whose full name contains this");
}

void Selection::check_names(const char* command, const spec::Registry& registry) const {
  if (!dtype.empty()) dtype_from_name(dtype);
  std::set<std::string> ops;
  for (const spec::Case& c : registry.cases()) ops.insert(c.op);
  if (op.empty() || ops.contains(op)) return;
  std::string list;
  for (const std::string& known : ops) list += (list.empty() ? "" : ", ") + known;
  fail(ErrorCode::invalid_argument, command, "unknown op '", op, "'; expected one of ", list);
}

bool Selection::takes(const std::string& case_op, const std::string& case_dtype, const std::string& full) const {
  return (op.empty() || op == case_op) && (dtype.empty() || case_dtype.empty() || dtype == case_dtype) &&
         full.find(name) != std::string::npos;
}

void Selection::fail_empty(const char* command) const {
  std::string selected;
  for (const auto& [flag, value] : {std::pair{" --op ", &op}, {" --dtype ", &dtype}, {" --case ", &name}})
    if (!value->empty()) selected += flag + *value;
  fail(ErrorCode::invalid_argument, command, "no case matches", selected.empty() ? " the selection" : selected);
}

}  // namespace weft::cli
