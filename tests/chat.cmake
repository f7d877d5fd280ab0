# Conversations and chat templates.
add_executable(chat_render unit/chat_render.cpp)
weft_target_defaults(chat_render)
target_link_libraries(chat_render PRIVATE weft nlohmann_json::nlohmann_json)
target_include_directories(chat_render PRIVATE ${PROJECT_SOURCE_DIR})

foreach(name IN ITEMS chat_golden_test chat_template_test chat_limits_test chat_format_test chat_answers_test)
  weft_unit_test(${name})
  target_compile_definitions(${name} PRIVATE WEFT_GOLDEN="${CMAKE_CURRENT_SOURCE_DIR}/golden")
  target_link_libraries(${name} PRIVATE nlohmann_json::nlohmann_json)
endforeach()
