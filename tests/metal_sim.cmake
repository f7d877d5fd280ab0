# Tests of the Metal simulator, if the library contains it.
if(NOT WEFT_METAL_SIM_RUNS)
  return()
endif()
foreach(name IN ITEMS metal_sim_test metal_sim_checks_test metal_sim_sources_test metal_sim_hazards_test metal_sim_seeds_test)
  weft_unit_test(${name} metal)
endforeach()
target_compile_definitions(metal_sim_seeds_test PRIVATE WEFT_METAL_SEEDS="${CMAKE_CURRENT_SOURCE_DIR}/metal/seeds")
