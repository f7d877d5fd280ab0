#include "weft/chat/conversation.h"

#include "weft/base/check.h"

namespace weft {
namespace {

[[noreturn]] void missing() { fail(ErrorCode::unsupported, "Conversation", "not implemented yet"); }

}  // namespace

struct Conversation::State {};

Conversation::Conversation() : state_(std::make_unique<State>()) {}
Conversation::Conversation(const Conversation& other) : state_(std::make_unique<State>(*other.state_)) {}
Conversation::Conversation(Conversation&&) noexcept = default;
Conversation& Conversation::operator=(const Conversation& other) { return *this = Conversation(other); }
Conversation& Conversation::operator=(Conversation&&) noexcept = default;
Conversation::~Conversation() = default;

Conversation Conversation::parse(std::string_view, const std::string&) { missing(); }
Conversation Conversation::load(const std::string&) { missing(); }
std::string Conversation::json() const { missing(); }
size_t Conversation::size() const { missing(); }
std::string Conversation::role(size_t) const { missing(); }
std::string Conversation::content(size_t) const { missing(); }
void Conversation::add(std::string_view, std::string_view) { missing(); }
void Conversation::add_json(std::string_view) { missing(); }
void Conversation::insert(size_t, std::string_view, std::string_view) { missing(); }
void Conversation::erase(size_t, size_t) { missing(); }
void Conversation::pop_back() { missing(); }
void Conversation::set(std::string_view, bool) { missing(); }
void Conversation::set(std::string_view, int64_t) { missing(); }
void Conversation::set(std::string_view, double) { missing(); }
void Conversation::set(std::string_view, std::string_view) { missing(); }
void Conversation::set_json(std::string_view, std::string_view) { missing(); }
bool Conversation::has(std::string_view) const { missing(); }
void Conversation::unset(std::string_view) { missing(); }

}  // namespace weft
