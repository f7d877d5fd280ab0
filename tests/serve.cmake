# The HTTP server of the tool. Requests and answers are tested in any build, the server itself if it is built.
foreach(name IN ITEMS prompt_scores_test request_head_test serve_request_test serve_text_test)
  weft_unit_test(${name})
  target_link_libraries(${name} PRIVATE weft_serve_requests)
endforeach()
target_compile_definitions(serve_text_test PRIVATE WEFT_GOLDEN_TOKENIZERS="${CMAKE_CURRENT_SOURCE_DIR}/golden/tokenizers")
if(WEFT_HAS_SERVE)
  weft_integration_test(serve)
  weft_integration_test(serve_batch)
  weft_integration_test(serve_http)
  weft_integration_test(serve_abuse 300)  # requests
  weft_long_test(serve_abuse COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/integration/serve_abuse.py $<TARGET_FILE:weft_tool> ${PROJECT_SOURCE_DIR} 10000)
  foreach(name IN ITEMS serve_clients serve_page)  # skipped without the openai package and lm-eval; selenium and Chromium
    weft_long_test(${name} COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/integration/${name}.py $<TARGET_FILE:weft_tool> ${PROJECT_SOURCE_DIR})
  endforeach()
endif()
