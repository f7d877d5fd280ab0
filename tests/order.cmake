# The promise of one order of sums (docs/numerics.md): training, evaluation, prompts and decoding on random models of every architecture.
# Outside the suite, ctest -C long: 20 000 tokens on the simulator too.
if(NOT WEFT_SPECS)
  return()
endif()
if(WEFT_METAL_SIM_RUNS AND NOT WEFT_SANITIZE)
  add_test(NAME order.metal-sim COMMAND weft_tool check --one-order --device metal-sim --tokens 500 --models 4 --length 40 --batch 4)
  set_tests_properties(order.metal-sim PROPERTIES LABELS "metal")
  weft_long_test(order.metal-sim COMMAND weft_tool check --one-order --device metal-sim --tokens 20000)
endif()
