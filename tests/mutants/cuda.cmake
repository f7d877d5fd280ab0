# Mutants of CUDA kernels: the order of sums is changed on one path to the logits, and `weft check --device cuda --one-order` must reject
# each. CI has no GPU and does not build them: `cmake --build build/release --target cuda_mutants`, then
# `scripts/check-cuda-mutants build/release/tests/mutants` on a machine with one.
add_custom_target(cuda_mutants)

# weft_cuda_promise_mutant(name kernels.cu file from to): `file` is the kernels' source or a header of it.
function(weft_cuda_promise_mutant name kernels file from to)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name})
  weft_changed_file(${folder} ${file} "${from}" "${to}")
  if(NOT file STREQUAL kernels)
    configure_file(${PROJECT_SOURCE_DIR}/${kernels} ${folder}/${kernels} COPYONLY)
  endif()
  add_executable(mutant_${name} EXCLUDE_FROM_ALL ${folder}/${kernels} $<TARGET_OBJECTS:weft_cli>)
  weft_target_defaults(mutant_${name})
  weft_cuda_options(mutant_${name})
  target_include_directories(mutant_${name} BEFORE PRIVATE ${folder})
  target_include_directories(mutant_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(mutant_${name} PRIVATE weft weft_specs weft_bench weft_cli_libraries CLI11::CLI11 nlohmann_json::nlohmann_json)
  add_dependencies(cuda_mutants mutant_${name})
endfunction()

set(few_rows weft/ops/matmul/cuda/few_rows)
set(decoding weft/ops/kv_attention/cuda/kv_attention.cu)
set(values weft/ops/kv_attention/cuda/weigh_values.cuh)
# K in another order, products that are rounded before they are added.
weft_cuda_promise_mutant(cuda_promise_k_order ${few_rows}.cu ${few_rows}.cuh
  "multiply_add(sum[g], a[half], b[half][g])" "multiply_add(sum[g], a[1 - half], b[1 - half][g])")
weft_cuda_promise_mutant(cuda_promise_rounded_product ${few_rows}.cu ${few_rows}.cuh
  "fmaf(row.y, weight.y, sum[m])" "__fadd_rn(__fmul_rn(row.y, weight.y), sum[m])")
# Keys of a tile in another order, a rescaling skipped.
weft_cuda_promise_mutant(cuda_promise_key_order ${decoding} ${values}
  "multiply_add(o, tile.values[k], FragmentB{{tile.weights[k].x, tile.weights[k].y}})"
  "multiply_add(o, tile.values[k ^ 1], FragmentB{{tile.weights[k ^ 1].x, tile.weights[k ^ 1].y}})")
weft_cuda_promise_mutant(cuda_promise_rescale_skipped ${decoding} ${values}
  "o.x[i] *= i % 2 == 0 ? tile.shrink.x : tile.shrink.y"
  "o.x[i] *= (i % 2 == 0 ? tile.shrink.x : tile.shrink.y) > 0.9f ? 1.0f : i % 2 == 0 ? tile.shrink.x : tile.shrink.y")
