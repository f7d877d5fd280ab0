# Writes chat_page() (weft/serve/http_server.h): the file PAGE as a string constant.
cmake_minimum_required(VERSION 3.25)
file(READ ${PAGE} text)
file(WRITE ${OUTPUT} "// Written by cmake/embed_page.cmake.
#include <string_view>

namespace weft::serve {

std::string_view chat_page() { return R\"weft_page(${text})weft_page\"; }

}  // namespace weft::serve
")
