#include <nlohmann/json.hpp>

#include "weft/base/check.h"
#include "weft/chat/conversation_state.h"
#include "weft/io/json.h"
#include "weft/io/recognise.h"

namespace weft::chat {
namespace {

// Builds values with the limits of weft/io/json.h, whose own document would sort the keys.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(const std::string& file, int depth) : file_(file), most_depth_(size_t(depth)) {}

  Value take() { return std::move(root_); }

  bool null() override { return put(Value()); }
  bool boolean(bool value) override { return put(Value(value)); }
  bool number_integer(int64_t value) override { return put(Value(value)); }
  bool number_unsigned(uint64_t value) override {
    if (value > uint64_t(INT64_MAX))
      fail(ErrorCode::bad_file, file_, "has the integer ", value, ", which does not fit 64 bits with a sign");
    return put(Value(int64_t(value)));
  }
  bool number_float(double value, const std::string& text) override {
    if (text.find_first_of(".eE") == text.npos)
      fail(ErrorCode::bad_file, file_, "has the integer ", shown(text), ", which does not fit 64 bits");
    return put(Value(value));
  }
  bool string(std::string& value) override { return put(heap_.string(std::move(value))); }
  bool binary(Json::binary_t&) override { return false; }
  bool start_object(size_t) override { return open(true); }
  bool start_array(size_t) override { return open(false); }
  bool key(std::string& name) override {
    open_.back().keys.push_back(heap_.string(std::move(name)));
    return true;
  }
  bool end_object() override {
    Open closed = close();
    std::vector<Dict::Entry> entries;
    for (size_t i = 0; i < closed.keys.size(); ++i) entries.emplace_back(std::move(closed.keys[i]), std::move(closed.values[i]));
    const std::vector<Dict::Entry> given = entries;
    Value made = heap_.dict(std::move(entries));
    if (made.dict().entries.size() != given.size()) refuse_duplicate(given);
    return put(std::move(made));
  }
  bool end_array() override { return put(heap_.list(close().values)); }
  bool parse_error(size_t position, const std::string&, const Json::exception& error) override {
    fail(ErrorCode::bad_file, file_, "is not valid JSON at byte ", position, ": ", parse_error_reason(error));
  }

 private:
  struct Open {
    bool object = false;
    std::vector<Value> keys, values;
  };

  bool put(Value value) {
    if (open_.empty())
      root_ = std::move(value);
    else
      open_.back().values.push_back(std::move(value));
    return true;
  }
  bool open(bool object) {
    if (open_.size() == most_depth_) fail(ErrorCode::bad_file, file_, "nests JSON more than ", most_depth_, " levels deep");
    open_.push_back({object, {}, {}});
    return true;
  }
  Open close() {
    Open closed = std::move(open_.back());
    open_.pop_back();
    return closed;
  }
  [[noreturn]] void refuse_duplicate(const std::vector<Dict::Entry>& entries) const {
    std::unordered_map<std::string, int> seen;
    for (const auto& [key, value] : entries)
      if (seen[key.text()]++ > 0) fail(ErrorCode::bad_file, file_, "names the key '", shown(key.text()), "' twice in one object");
    fail(ErrorCode::bad_file, file_, "names a key twice in one object");
  }

  const std::string& file_;
  const size_t most_depth_;
  Heap heap_;  // counts nothing: the size of the text bounds the values
  Value root_;
  std::vector<Open> open_;
};

}  // namespace

Value parse_value(std::string_view json, const std::string& file) {
  const JsonLimits limits;
  refuse_other_formats(file, json);
  if (json.size() > limits.bytes) fail(ErrorCode::bad_file, file, "has ", json.size(), " bytes of JSON, the limit is ", limits.bytes);
  Builder builder(file, limits.depth);
  Json::sax_parse(json.begin(), json.end(), &builder);
  return builder.take();
}

}  // namespace weft::chat
