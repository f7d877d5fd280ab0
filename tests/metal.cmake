# Metal: what can be known of the kernels without running them, and, where the simulator is built, all the rest.
if(WEFT_HAS_METAL)
  weft_unit_test(metal_backend_test)
endif()
find_program(WEFT_METAL_CLANG NAMES clang++-19 HINTS /usr/lib/llvm-19/bin)
if(NOT WEFT_METAL_CLANG)
  message(STATUS "No clang++-19: the Metal kernels are neither checked nor run")
  return()
endif()

# Every kernel file, and what expressions are written as: address spaces and what else Apple's compiler insists on.
get_property(kernels GLOBAL PROPERTY WEFT_METAL_FILES)
list(TRANSFORM kernels PREPEND ${PROJECT_SOURCE_DIR}/)
add_test(NAME metal.lint COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/metal/lint.py ${WEFT_METAL_CLANG} ${PROJECT_SOURCE_DIR} ${kernels} ${CMAKE_CURRENT_SOURCE_DIR}/golden/expr)
add_test(NAME metal.lint_finds COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/metal/lint_finds.py ${WEFT_METAL_CLANG} ${PROJECT_SOURCE_DIR})
# The half that needs a Mac, as far as a compiler can judge it.
add_test(NAME metal.apple_compiles COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/metal/apple_compiles.py ${WEFT_METAL_CLANG} ${PROJECT_SOURCE_DIR})
set_tests_properties(metal.lint metal.lint_finds metal.apple_compiles PROPERTIES LABELS "metal")

if(NOT WEFT_METAL_SIM_RUNS OR WEFT_SANITIZE)
  return()
endif()

# Every op on the simulator, in every mode. Whole folders of golden data too.
get_property(ops GLOBAL PROPERTY WEFT_OPS)
foreach(mode IN ITEMS metal-sim metal-sim:random metal-sim:flush metal-sim:checked)
  string(REPLACE ":" "_" test ${mode})
  foreach(op IN LISTS ops)
    add_test(NAME conformance.${test}.${op} COMMAND weft_tool check --device ${mode} --op ${op} --golden ${CMAKE_CURRENT_SOURCE_DIR}/golden/ops)
    set_tests_properties(conformance.${test}.${op} PROPERTIES LABELS "metal;golden")
  endforeach()
endforeach()

# Each barrier taken out in turn, file by file; the headers' in the ops that use them.
add_executable(metal_barriers metal/barriers.cpp)
weft_target_defaults(metal_barriers)
target_link_libraries(metal_barriers PRIVATE weft weft_specs)
target_include_directories(metal_barriers PRIVATE ${PROJECT_SOURCE_DIR})
foreach(file IN ITEMS tile/metal/team tile/metal/column_sums tile/metal/radix tile/metal/mma tile/metal/blocks transpose_2d/metal
    kv_attention/metal matmul/metal causal_attention/metal causal_attention/backward)
  string(REPLACE "/" "." test ${file})
  add_test(NAME metal.barriers.${test} COMMAND metal_barriers ${file})
  set_tests_properties(metal.barriers.${test} PROPERTIES LABELS "metal")
endforeach()

# What kernels move and compute, counted, against what they must.
add_test(NAME metal.counters COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/metal/counters.py $<TARGET_FILE:weft_tool>)
set_tests_properties(metal.counters PROPERTIES LABELS "metal")

# Training and generation through the whole backend.
weft_integration_test(metal_sim)
set_tests_properties(integration.metal_sim PROPERTIES LABELS "metal")
