# The HTTP server of the tool. Requests and answers are tested in any build, the server itself if it is built.
weft_unit_test(serve_request_test)
target_link_libraries(serve_request_test PRIVATE weft_serve_requests)
if(WEFT_HAS_SERVE)
  weft_integration_test(serve)
endif()
