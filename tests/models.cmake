# Whole models: golden data, gradients, caches.
weft_unit_test(backward_test)
weft_unit_test(model_test)
weft_unit_test(model_golden_test)
target_compile_definitions(model_golden_test PRIVATE WEFT_GOLDEN_MODELS="${CMAKE_CURRENT_SOURCE_DIR}/golden/models")
weft_unit_test(model_folder_test)
target_compile_definitions(model_folder_test PRIVATE WEFT_GOLDEN_MODELS="${CMAKE_CURRENT_SOURCE_DIR}/golden/models")
