# The promise of one order of sums (docs/numerics.md): training, evaluation, prompts and decoding on random models of every architecture.
# Outside the suite, ctest -C long: 20 000 tokens on the simulator too.
if(NOT WEFT_SPECS)
  return()
endif()
set(tokens 20000)
if(WEFT_SANITIZE)  # ten times slower
  set(tokens 2000)
endif()
add_test(NAME order.cpu COMMAND weft_tool check --one-order --tokens ${tokens})
set_tests_properties(order.cpu PROPERTIES LABELS "cpu")
weft_integration_test(one_order ${WEFT_NATIVE})
# A GPU that is not there is skipped, visibly (exit code 3).
add_test(NAME order.cuda COMMAND weft_tool check --one-order --device cuda --tokens 20000)
set_tests_properties(order.cuda PROPERTIES LABELS "cuda" SKIP_RETURN_CODE 3)
if(WEFT_METAL_SIM_RUNS AND NOT WEFT_SANITIZE)
  add_test(NAME order.metal-sim COMMAND weft_tool check --one-order --device metal-sim --tokens 260 --models 16 --length 24 --batch 3)
  set_tests_properties(order.metal-sim PROPERTIES LABELS "metal")
  weft_long_test(order.metal-sim COMMAND weft_tool check --one-order --device metal-sim --tokens 20000)
endif()
