#include "weft/io/json.h"

#include "weft/io/mapped_file.h"
#include "weft/io/recognise.h"

namespace weft {
namespace {

// Builds the document as nlohmann's own parser does, but rejects excessive depth and duplicate keys.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(const std::string& file, const JsonLimits& limits) : file_(file), limits_(limits) {}

  Json take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(int64_t value) override { return put(value); }
  bool number_unsigned(uint64_t value) override { return put(value); }
  bool number_float(double value, const std::string&) override { return put(value); }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool binary(Json::binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    Json::object_t& object = open_.back()->get_ref<Json::object_t&>();
    const auto [place, added] = object.emplace(std::move(name), nullptr);
    if (object.size() > limits_.members) fail(ErrorCode::bad_file, file_, "has an object of more than ", limits_.members, " members");
    if (!added) fail(ErrorCode::bad_file, file_, "names the key '", shown(place->first), "' twice in one object");
    member_ = &place->second;
    return true;
  }
  bool parse_error(size_t position, const std::string&, const Json::exception& error) override {
    fail(ErrorCode::bad_file, file_, "is not valid JSON at byte ", position, ": ", parse_error_reason(error));
  }

 private:
  template <class Value>
  Json* place(Value&& value) {
    if (open_.empty()) return &(root_ = Json(std::forward<Value>(value)));
    if (open_.back()->is_object()) return &(*member_ = Json(std::forward<Value>(value)));
    return &open_.back()->get_ref<Json::array_t&>().emplace_back(std::forward<Value>(value));
  }
  template <class Value>
  bool put(Value&& value) {
    place(std::forward<Value>(value));
    return true;
  }
  bool open(Json container) {
    if (int(open_.size()) == limits_.depth) fail(ErrorCode::bad_file, file_, "nests JSON more than ", limits_.depth, " levels deep");
    open_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& file_;
  const JsonLimits limits_;
  Json root_;
  std::vector<Json*> open_;  // from the root to the innermost; a list reallocates its elements only when none is open
  Json* member_ = nullptr;
};

constexpr size_t kShownBytes = 80;

}  // namespace

std::string shown(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (out.size() >= kShownBytes) return out + "...";
    out += (unsigned char)c < 0x20 || c == 0x7f ? '?' : c;
  }
  return out;
}

// nlohmann: "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing value - invalid literal; last
// read: 'x'; expected '}'"
std::string parse_error_reason(const std::exception& error) {
  std::string reason = error.what();
  const auto drop_to = [&](std::string_view begin, std::string_view end) {
    if (const size_t at = reason.find(end); reason.starts_with(begin) && at != reason.npos) reason.erase(0, at + end.size());
  };
  drop_to("[", "] ");
  drop_to("parse error", ": ");
  drop_to("syntax error", " - ");
  if (const size_t read = reason.find("; last read: '"); read != reason.npos) {
    const size_t expected = reason.rfind("; expected ");
    reason.erase(read, expected == reason.npos || expected < read ? reason.npos : expected - read);
  }
  return shown(reason);
}

std::string shown_value(const Json& value) {
  if (value.is_object()) return join("an object of ", value.size(), " members");
  if (value.is_array()) return join("a list of ", value.size(), " elements");
  return shown(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json parse_json(const std::string& file, std::string_view text, const JsonLimits& limits) {
  refuse_other_formats(file, text);
  if (text.size() > limits.bytes) fail(ErrorCode::bad_file, file, "has ", text.size(), " bytes of JSON, the limit is ", limits.bytes);
  Builder builder(file, limits);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

Json read_json(const std::string& path, const JsonLimits& limits) {
  const MappedFile file(path);
  return parse_json(path, {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, limits);
}

const JsonNode& JsonNode::expect(bool ok, const char* what) const {
  if (!ok) refuse("is ", shown_value(*value_), ", expected ", what);
  return *this;
}

std::optional<JsonNode> JsonNode::find(const std::string& key) const {
  object();
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return JsonNode(file_, path_ + "." + shown(key), &*found);
}

JsonNode JsonNode::at(const std::string& key) const {
  auto found = find(key);
  if (!found) refuse("has no '", key, "'");
  return *found;
}

std::vector<JsonNode> JsonNode::elements() const {
  list();
  std::vector<JsonNode> nodes;
  nodes.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i) nodes.push_back(JsonNode(file_, join(path_, "[", i, "]"), &(*value_)[i]));
  return nodes;
}

std::vector<std::pair<std::string, JsonNode>> JsonNode::members() const {
  object();
  std::vector<std::pair<std::string, JsonNode>> nodes;
  for (const auto& [key, member] : value_->items()) nodes.emplace_back(key, JsonNode(file_, path_ + "." + shown(key), &member));
  return nodes;
}

int64_t JsonNode::integer(int64_t least, int64_t most) const {
  const bool whole = value_->is_number_integer() && !(value_->is_number_unsigned() && value_->get<uint64_t>() > uint64_t(INT64_MAX));
  expect(whole, "an integer");
  const int64_t number = value_->get<int64_t>();
  if (number < least || number > most) refuse("is ", number, ", expected ", least, " to ", most);
  return number;
}

std::string JsonNode::text_or(const std::string& key, const std::string& otherwise) const {
  const auto node = find(key);
  return node ? node->text() : otherwise;
}
bool JsonNode::boolean_or(const std::string& key, bool otherwise) const {
  const auto node = find(key);
  return node ? node->boolean() : otherwise;
}
double JsonNode::number_or(const std::string& key, double otherwise) const {
  const auto node = find(key);
  return node ? node->number() : otherwise;
}
int64_t JsonNode::integer_or(const std::string& key, int64_t otherwise, int64_t least, int64_t most) const {
  const auto node = find(key);
  return node ? node->integer(least, most) : otherwise;
}

}  // namespace weft
