# The contents of model folders: weights, configurations, tokenizers.
foreach(name IN ITEMS tokenizer_test tokenizer_cuts_test tokenizer_golden_test tokenizer_characters_test config_json_test family_config_test damaged_files_test weight_files_test)
  weft_unit_test(${name})
  target_compile_definitions(${name} PRIVATE WEFT_GOLDEN_MODELS="${CMAKE_CURRENT_SOURCE_DIR}/golden/models"
                                             WEFT_GOLDEN_TOKENIZERS="${CMAKE_CURRENT_SOURCE_DIR}/golden/tokenizers")
  target_link_libraries(${name} PRIVATE nlohmann_json::nlohmann_json)
endforeach()

weft_unit_test(gguf_config_test)
foreach(name IN ITEMS gguf_test gguf_model_test)
  weft_unit_test(${name})
  target_compile_definitions(${name} PRIVATE WEFT_GOLDEN_MODELS="${CMAKE_CURRENT_SOURCE_DIR}/golden/models"
                                             WEFT_GOLDEN_GGUF="${CMAKE_CURRENT_SOURCE_DIR}/golden/gguf")
  target_link_libraries(${name} PRIVATE nlohmann_json::nlohmann_json)
endforeach()

# The fuzz targets, run on their own corpora.
weft_unit_test(fuzz_corpus_test)
target_sources(fuzz_corpus_test PRIVATE fuzz/chat_template.cpp fuzz/config.cpp fuzz/gguf.cpp fuzz/safetensors.cpp fuzz/serve_request.cpp fuzz/tokenizer.cpp)
target_link_libraries(fuzz_corpus_test PRIVATE weft_serve_requests)
if(WEFT_HAS_SERVE)
  target_sources(fuzz_corpus_test PRIVATE fuzz/serve_http.cpp)
  target_link_libraries(fuzz_corpus_test PRIVATE weft_serve)
  target_compile_definitions(fuzz_corpus_test PRIVATE WEFT_HAS_SERVE WEFT_FUZZ_MODEL="${CMAKE_CURRENT_SOURCE_DIR}/golden/models/llama")
endif()
target_compile_definitions(fuzz_corpus_test PRIVATE WEFT_FUZZ_CORPUS="${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus")
