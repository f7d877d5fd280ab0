# Metal: what can be known of the kernels without running them, and, where the simulator is built, all the rest.
if(WEFT_HAS_METAL)
  weft_unit_test(metal_backend_test)
endif()
# Whole models against golden data, layers and generation: the tests of the CPU, on the GPU of a Mac or on the simulator.
if(APPLE OR (WEFT_METAL_SIM_RUNS AND NOT WEFT_SANITIZE))
  set(device metal-sim)
  if(APPLE)
    set(device metal)
  endif()
  foreach(test IN ITEMS fault_test generator_test kernel_cache_test layers_test model_golden_test positions_test training_golden_test)
    add_test(NAME metal.${test} COMMAND ${test})
    set_tests_properties(metal.${test} PROPERTIES LABELS "metal;golden" ENVIRONMENT WEFT_TEST_DEVICE=${device} SKIP_REGULAR_EXPRESSION "no Metal device")
  endforeach()
  # The plan of a run there is what it then takes.
  add_test(NAME metal.training_memory_test COMMAND training_memory_test --gtest_filter=*drawn_at_random)
  set_tests_properties(metal.training_memory_test PROPERTIES LABELS "metal" ENVIRONMENT "WEFT_TEST_DEVICE=${device};WEFT_DRAWS=2" SKIP_REGULAR_EXPRESSION "no Metal device")
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

# Programs that run specs on a simulator of their own.
foreach(name IN ITEMS barriers counters dispatch_barriers few_threads)
  add_executable(metal_${name} metal/${name}.cpp)
  weft_target_defaults(metal_${name})
  target_link_libraries(metal_${name} PRIVATE weft weft_specs)
  target_include_directories(metal_${name} PRIVATE ${PROJECT_SOURCE_DIR})
endforeach()
# Each barrier of every kernel of the library taken out in turn, the headers' in the ops that use them; an eighth of them a test.
foreach(part RANGE 1 8)
  add_test(NAME metal.barriers.${part} COMMAND metal_barriers ${part}/8)
  set_tests_properties(metal.barriers.${part} PROPERTIES LABELS "metal")
endforeach()
# Those between dispatches; and pipelines of at most 256 threads.
add_test(NAME metal.dispatch_barriers COMMAND metal_dispatch_barriers)
add_test(NAME metal.few_threads COMMAND metal_few_threads 256)
set_tests_properties(metal.dispatch_barriers metal.few_threads PROPERTIES LABELS "metal")

# What kernels move, counted, against what they must; and which part of attention's multiplications are products of matrices.
add_test(NAME metal.counters COMMAND metal_counters)
add_test(NAME metal.multiply_adds COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/metal/multiply_adds.py $<TARGET_FILE:weft_tool> ${WEFT_METAL_CLANG})
set_tests_properties(metal.counters metal.multiply_adds PROPERTIES LABELS "metal")

# Golden models once more with every dispatch held against those it shares a command buffer with.
add_test(NAME metal.model_golden_test.checked COMMAND model_golden_test)
set_tests_properties(metal.model_golden_test.checked PROPERTIES LABELS "metal;golden" ENVIRONMENT WEFT_TEST_DEVICE=metal-sim:checked)

# Training and generation through the whole tool.
weft_integration_test(metal_sim)
set_tests_properties(integration.metal_sim PROPERTIES LABELS "metal")
