#include <cmath>

#include "weft/chat/merge_sort.h"
#include "weft/chat/operators.h"
#include "weft/chat/printing.h"
#include "weft/chat/trouble.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft::chat {
namespace {

constexpr char kHex[] = "0123456789abcdef";

void append_unit(std::string& out, uint32_t unit) {
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kHex[unit >> shift & 15];
}

void append_code(std::string& out, char32_t code) {
  if (code < 0x10000) return append_unit(out, code);
  append_unit(out, 0xd800 + ((code - 0x10000) >> 10));
  append_unit(out, 0xdc00 + ((code - 0x10000) & 0x3ff));
}

std::string json_string(std::string_view text, bool ascii) {
  static constexpr std::string_view kPlain = "\"\\\n\r\t\b\f", kEscaped = "\"\\nrtbf";
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text.substr(at));
    if (const size_t found = step.code < 0x80 ? kPlain.find(char(step.code)) : kPlain.npos; found != kPlain.npos) {
      out += '\\';
      out += kEscaped[found];
    } else if (step.code < 0x20 || (ascii && step.code > 0x7e)) {
      append_code(out, step.code);
    } else {
      out += text.substr(at, step.length);
    }
    at += step.length;
  }
  return out += '"';
}

std::string json_number(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  return represented(number);
}

class Writer {
 public:
  Writer(Heap& heap, const JsonStyle& style) : heap_(heap), style_(style) {}

  void write(const Value& value) {
    switch (value.type()) {
      case Type::none: return add("null");
      case Type::boolean: return add(value.boolean() ? "true" : "false");
      case Type::integer: return add(std::to_string(value.integer()));
      case Type::number: return add(json_number(value.number()));
      case Type::string: heap_.expect(value.text().size() * 6); return add(json_string(value.text(), style_.ascii));
      case Type::list:
      case Type::tuple: return list(value.items());
      case Type::dict: return dict(value.dict());
      default: wrong("Object of type ", type_name(value), " is not JSON serializable");
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void add(std::string_view text) {
    heap_.touch(text.size());
    heap_.expect(out_.size() + text.size());
    out_ += text;
  }

  void new_line() {
    if (!style_.indent) return;
    add("\n");
    for (int i = 0; i < level_; ++i) add(*style_.indent);
  }

  void list(const std::vector<Value>& items) {
    if (items.empty()) return add("[]");
    add("[");
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) add(style_.item_separator);
      new_line();
      write(items[i]);
    }
    --level_;
    new_line();
    add("]");
  }

  std::string key_text(const Value& key) const {
    switch (key.type()) {
      case Type::string: return key.text();
      case Type::none: return "null";
      case Type::boolean: return key.boolean() ? "true" : "false";
      case Type::integer: return std::to_string(key.integer());
      case Type::number: return json_number(key.number());
      default: wrong("keys must be str, int, float, bool or None, not ", type_name(key));
    }
  }

  void dict(const Dict& dict) {
    if (dict.entries.empty()) return add("{}");
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries) entries.push_back(&entry);
    if (style_.sort_keys) merge_sort(entries, [&](const auto* a, const auto* b) { return less(heap_, a->first, b->first); });
    add("{");
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) add(style_.item_separator);
      new_line();
      add(json_string(key_text(entries[i]->first), style_.ascii));
      add(style_.key_separator);
      write(entries[i]->second);
    }
    --level_;
    new_line();
    add("}");
  }

  Heap& heap_;
  const JsonStyle& style_;
  std::string out_;
  int level_ = 0;
};

}  // namespace

std::string json_text(Heap& heap, const Value& value, const JsonStyle& style) {
  Writer writer(heap, style);
  writer.write(value);
  return writer.take();
}

}  // namespace weft::chat
