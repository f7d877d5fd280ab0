# Metal: checks of the kernel sources, and, if the simulator is built, tests that run them.
if(WEFT_HAS_METAL)
  weft_unit_test(metal_backend_test)
endif()
# Whole models against golden data, layers and generation: the CPU's tests, run on the GPU of a Mac or on the simulator.
if(APPLE OR (WEFT_METAL_SIM_RUNS AND NOT WEFT_SANITIZE))
  set(device metal-sim)
  if(APPLE)
    set(device metal)
  endif()
  foreach(test IN ITEMS fault_test generator_test gradient_norm_test joint_linear_test kernel_cache_test layers_test log_probability_test model_golden_test positions_test score_test training_golden_test)
    add_test(NAME metal.${test} COMMAND ${test})
    set_tests_properties(metal.${test} PROPERTIES LABELS "metal;golden" ENVIRONMENT WEFT_TEST_DEVICE=${device} SKIP_REGULAR_EXPRESSION "no Metal device")
  endforeach()
  # Packed documents: each token's logits and loss have the bits of its document alone; a run packs documents unless told otherwise.
  add_test(NAME metal.document_model_test COMMAND document_model_test "--gtest_filter=*losses_and_logits*:*weight_gradients*/llama_untied:*bad_documents*/llama_untied")
  add_test(NAME metal.packed_training_test COMMAND packed_training_test --gtest_filter=*a_run_keeps_its_packing)
  weft_long_test(metal.packed_training_test COMMAND packed_training_test --gtest_filter=PackedDocuments.*)
  set_tests_properties(metal.document_model_test metal.packed_training_test PROPERTIES LABELS "metal")
  set_tests_properties(metal.document_model_test metal.packed_training_test long.metal.packed_training_test PROPERTIES ENVIRONMENT WEFT_TEST_DEVICE=${device} SKIP_REGULAR_EXPRESSION "no Metal device")
  # Sequences that join, leave and share pages, and a pool that grows.
  add_test(NAME metal.engine_test COMMAND engine_test --gtest_filter=*Shar*:*Short*:*Kept*)
  add_test(NAME metal.growing_engine_test COMMAND growing_engine_test --gtest_filter=-*GrowsWithTheSequence:*SequencesStay*)
  set_tests_properties(metal.engine_test metal.growing_engine_test PROPERTIES LABELS "metal" ENVIRONMENT WEFT_TEST_DEVICE=${device} SKIP_REGULAR_EXPRESSION "no Metal device")
  # The memory plan of a run equals what the run then allocates.
  add_test(NAME metal.training_memory_test COMMAND training_memory_test --gtest_filter=*plan_holds_for_random_settings)
  set_tests_properties(metal.training_memory_test PROPERTIES LABELS "metal" ENVIRONMENT "WEFT_TEST_DEVICE=${device};WEFT_DRAWS=2" SKIP_REGULAR_EXPRESSION "no Metal device")
endif()
find_program(WEFT_METAL_CLANG NAMES clang++-19 HINTS /usr/lib/llvm-19/bin)
if(NOT WEFT_METAL_CLANG)
  message(STATUS "No clang++-19: the Metal kernels are neither checked nor run")
  return()
endif()

# Lints every kernel file and the emitted expressions: address spaces and other rules of Apple's compiler.
get_property(kernels GLOBAL PROPERTY WEFT_METAL_FILES)
list(TRANSFORM kernels PREPEND ${PROJECT_SOURCE_DIR}/)
add_test(NAME metal.lint COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/metal/lint.py ${WEFT_METAL_CLANG} ${PROJECT_SOURCE_DIR} ${kernels} ${CMAKE_CURRENT_SOURCE_DIR}/golden/expr)
add_test(NAME metal.lint_finds COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/metal/lint_finds.py ${WEFT_METAL_CLANG} ${PROJECT_SOURCE_DIR})
# Compiles the Objective-C++ part, which needs a Mac, against declarations of the framework.
add_test(NAME metal.apple_compiles COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/metal/apple_compiles.py ${WEFT_METAL_CLANG} ${PROJECT_SOURCE_DIR})
set_tests_properties(metal.lint metal.lint_finds metal.apple_compiles PROPERTIES LABELS "metal")

if(NOT WEFT_METAL_SIM_RUNS OR WEFT_SANITIZE)
  return()
endif()

# Every op on the simulator in every mode, and the golden data. The suite runs a third of the cases of the largest ops in the
# modes beside the plain one.
get_property(ops GLOBAL PROPERTY WEFT_OPS)
set(largest matmul causal_attention elementwise)
foreach(mode IN ITEMS metal-sim metal-sim:random metal-sim:flush metal-sim:checked)
  string(REPLACE ":" "_" test ${mode})
  foreach(op IN LISTS ops)
    set(command COMMAND weft_tool check --device ${mode} --op ${op} --golden ${CMAKE_CURRENT_SOURCE_DIR}/golden/ops)
    if(op IN_LIST largest AND NOT mode STREQUAL metal-sim)
      add_test(NAME conformance.${test}.${op} ${command} --part 1/3)
      weft_long_test(conformance.${test}.${op} ${command})
    else()
      add_test(NAME conformance.${test}.${op} ${command})
    endif()
    set_tests_properties(conformance.${test}.${op} PROPERTIES LABELS "metal;golden")
  endforeach()
endforeach()

# Programs that run specs on their own simulator.
foreach(name IN ITEMS barriers counters dispatch_barriers few_threads order_mutants)
  add_executable(metal_${name} metal/${name}.cpp)
  weft_target_defaults(metal_${name})
  target_link_libraries(metal_${name} PRIVATE weft weft_specs weft_bench)
  target_include_directories(metal_${name} PRIVATE ${PROJECT_SOURCE_DIR})
endforeach()
# Removes each barrier of every kernel in turn, those in headers in the ops that use them; an eighth of them per test.
foreach(part RANGE 1 8)
  add_test(NAME metal.barriers.${part} COMMAND metal_barriers ${part}/8)
  set_tests_properties(metal.barriers.${part} PROPERTIES LABELS "metal")
endforeach()
# Removes barriers between dispatches; and limits pipelines to 256 threads.
add_test(NAME metal.dispatch_barriers COMMAND metal_dispatch_barriers)
add_test(NAME metal.few_threads COMMAND metal_few_threads 256)
set_tests_properties(metal.dispatch_barriers metal.few_threads PROPERTIES LABELS "metal")

# Counted memory traffic against the minimum; and the share of attention's multiplications done by matrix instructions.
add_test(NAME metal.counters COMMAND metal_counters)
add_test(NAME metal.multiply_adds COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/metal/multiply_adds.py $<TARGET_FILE:weft_tool> ${WEFT_METAL_CLANG})
set_tests_properties(metal.counters metal.multiply_adds PROPERTIES LABELS "metal")

# Every fast kernel against slow ones in the documented order of sums. The order within a simdgroup_matrix is k ascending, or drawn from a
# seed: a kernel that takes the matrix unit's order for a scalar one is caught.
foreach(name IN ITEMS metal_documents_test metal_order_test metal_model_order_test)
  add_executable(${name} unit/${name}.cpp)
  weft_target_defaults(${name})
  target_link_libraries(${name} PRIVATE weft weft_specs GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE WEFT_METAL_ONE_ORDER="${CMAKE_CURRENT_SOURCE_DIR}/metal/one_order.metal")
endforeach()
foreach(order IN ITEMS 0 7)
  add_test(NAME metal.order.${order} COMMAND metal_order_test)
  set_tests_properties(metal.order.${order} PROPERTIES LABELS "metal" ENVIRONMENT WEFT_METAL_SIM_MATRIX_ORDER=${order})
endforeach()
# Packed documents have the bytes of each alone, in a drawn order within a matrix: keys shifted by less than eight give other bits.
add_test(NAME metal.documents COMMAND metal_documents_test)
set_tests_properties(metal.documents PROPERTIES LABELS "metal;mutant" ENVIRONMENT WEFT_METAL_SIM_MATRIX_ORDER=7)
# Kernels in another order, which the check of the promise must find.
foreach(order IN ITEMS 0 7)
  add_test(NAME metal.order_mutants.${order} COMMAND metal_order_mutants)
  set_tests_properties(metal.order_mutants.${order} PROPERTIES LABELS "metal;mutant" ENVIRONMENT WEFT_METAL_SIM_MATRIX_ORDER=${order})
endforeach()
# Whole models in training, prompts and decoding, in one of the drawn orders.
add_test(NAME metal.model_order COMMAND metal_model_order_test)
weft_long_test(metal.model_order COMMAND metal_model_order_test)
set_tests_properties(metal.model_order PROPERTIES LABELS "metal" ENVIRONMENT WEFT_METAL_SIM_MATRIX_ORDER=7)
set_tests_properties(long.metal.model_order PROPERTIES ENVIRONMENT "WEFT_METAL_SIM_MATRIX_ORDER=7;WEFT_ORDER_TOKENS=20000")

# Golden models again, with every dispatch compared with the others of its command buffer.
add_test(NAME metal.model_golden_test.checked COMMAND model_golden_test)
set_tests_properties(metal.model_golden_test.checked PROPERTIES LABELS "metal;golden" ENVIRONMENT WEFT_TEST_DEVICE=metal-sim:checked)

# Training and generation with the whole tool.
weft_integration_test(metal_sim)
set_tests_properties(integration.metal_sim PROPERTIES LABELS "metal")
