#include "weft/chat/chat_format.h"

#include "weft/base/check.h"

namespace weft {
namespace {

[[noreturn]] void missing() { fail(ErrorCode::unsupported, "ChatFormat", "not implemented yet"); }

}  // namespace

struct ChatFormat::State {};

ChatFormat::ChatFormat(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChatFormat::ChatFormat(const ChatFormat& other) : state_(std::make_unique<State>(*other.state_)) {}
ChatFormat::ChatFormat(ChatFormat&&) noexcept = default;
ChatFormat& ChatFormat::operator=(const ChatFormat& other) { return *this = ChatFormat(other); }
ChatFormat& ChatFormat::operator=(ChatFormat&&) noexcept = default;
ChatFormat::~ChatFormat() = default;

std::optional<ChatFormat> ChatFormat::load(const std::string&, const std::string&) { missing(); }
ChatFormat ChatFormat::parse(std::string_view, const std::map<std::string, std::string>&, const std::string&) { missing(); }
std::vector<std::string> ChatFormat::names() const { missing(); }
const std::map<std::string, std::string>& ChatFormat::special_tokens() const { missing(); }
std::string ChatFormat::render(const Conversation&, bool) const { missing(); }
ChatFormat::Encoded ChatFormat::encode(const Conversation&, const Tokenizer&, bool) const { missing(); }
bool ChatFormat::has_generation_blocks(const Conversation&) const { missing(); }
void ChatFormat::set_time(std::optional<std::time_t>) { missing(); }

}  // namespace weft
