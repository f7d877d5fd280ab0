# Tracing, simplifying, differentiating and emitting expressions.
weft_unit_test(expr_test)
weft_unit_test(derivative_test)
weft_unit_test(emitted_test)
weft_unit_test(emit_test)
target_compile_definitions(emit_test PRIVATE WEFT_GOLDEN_EXPR="${CMAKE_CURRENT_SOURCE_DIR}/golden/expr")

# NVRTC compiles without a GPU; the test exists only if NVRTC is installed.
find_package(CUDAToolkit QUIET)
if(TARGET CUDA::nvrtc)
  weft_unit_test(nvrtc_test)
  target_link_libraries(nvrtc_test PRIVATE CUDA::nvrtc)
else()
  message(STATUS "No NVRTC: the emitted CUDA text is compared with golden files but not compiled")
endif()
