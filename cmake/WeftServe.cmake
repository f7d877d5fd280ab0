# The HTTP server of the tool (weft serve): built if cpp-httplib is found or WEFT_SERVE=ON. The library has no part of it.
set(WEFT_SERVE AUTO CACHE STRING "The HTTP server of the tool: AUTO (if cpp-httplib is found), ON or OFF")
set_property(CACHE WEFT_SERVE PROPERTY STRINGS AUTO ON OFF)

set(WEFT_HAS_SERVE OFF)
if(NOT (WEFT_TOOL OR WEFT_FUZZ) OR NOT WEFT_SERVE)
  message(STATUS "weft serve: not built")
elseif(WEFT_SERVE STREQUAL AUTO AND CMAKE_CROSSCOMPILING)
  message(STATUS "weft serve: not built (this machine's cpp-httplib is for another processor)")
else()
  # pkg-config alone: the header must see the definitions that the library was compiled with.
  if(WEFT_SERVE STREQUAL AUTO)
    pkg_check_modules(HTTPLIB QUIET IMPORTED_TARGET cpp-httplib>=0.11)
  else()
    pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib>=0.11)
  endif()
  if(HTTPLIB_FOUND)
    set(WEFT_HAS_SERVE ON)
    message(STATUS "weft serve: cpp-httplib ${HTTPLIB_VERSION}")
  else()
    message(STATUS "weft serve: not built (no cpp-httplib found)")
  endif()
endif()

# weft_serve_requests: requests and answers, without HTTP. weft_serve: the server.
function(weft_add_serve)
  set(folder ${PROJECT_SOURCE_DIR}/weft/serve)
  add_library(weft_serve_requests STATIC ${folder}/answer.cpp ${folder}/conversation_json.cpp ${folder}/fields.cpp ${folder}/job.cpp ${folder}/loopback.cpp
    ${folder}/metrics.cpp ${folder}/prompt_scores.cpp ${folder}/request.cpp ${folder}/request_head.cpp ${folder}/scheduler.cpp ${folder}/sequence_text.cpp
    ${folder}/served_model.cpp ${folder}/text_offsets.cpp ${folder}/token_json.cpp)
  weft_target_defaults(weft_serve_requests)
  target_link_libraries(weft_serve_requests PUBLIC weft nlohmann_json::nlohmann_json Threads::Threads)
  if(NOT WEFT_HAS_SERVE)
    return()
  endif()
  set(page ${CMAKE_CURRENT_BINARY_DIR}/chat_page.cpp)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_page.cmake)
  add_custom_command(OUTPUT ${page} COMMAND ${CMAKE_COMMAND} -DPAGE=${folder}/chat.html -DOUTPUT=${page} -P ${script}
    DEPENDS ${folder}/chat.html ${script} VERBATIM COMMENT "Embedding the chat page")
  add_library(weft_serve STATIC ${folder}/connection.cpp ${folder}/exchange.cpp ${folder}/http_server.cpp ${folder}/listener.cpp ${page})
  weft_target_defaults(weft_serve)
  target_link_libraries(weft_serve PUBLIC weft_serve_requests PRIVATE PkgConfig::HTTPLIB)
endfunction()
