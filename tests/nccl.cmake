# Messages of device memory: a program that a script runs under mpirun, on GPUs and on the CPU. A missing GPU is skipped, visibly.
add_executable(device_messages comm/device_messages.cpp)
weft_target_defaults(device_messages)
target_link_libraries(device_messages PRIVATE weft)
target_include_directories(device_messages PRIVATE ${PROJECT_SOURCE_DIR})
foreach(device IN ITEMS cpu cuda)
  add_test(NAME mpi.device_messages.${device} COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/comm/device_messages.py $<TARGET_FILE:device_messages> ${device})
  set_tests_properties(mpi.device_messages.${device} PROPERTIES LABELS "mpi" SKIP_RETURN_CODE 77 PROCESSORS 2 TIMEOUT 400)
endforeach()
weft_unit_test(pending_watch_test)

# The communicator over NCCL with fakes of NCCL and of CUDA's runtime, which the library itself is linked with: so its sources are compiled
# again here.
if(WEFT_HAS_NCCL)
  add_library(fake_nccl SHARED comm/fake_nccl.cpp)  # CUDA's functions are the program's
  set_target_properties(fake_nccl PROPERTIES OUTPUT_NAME nccl SUFFIX .so.2 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fake_nccl)
  set(sources base/dtype base/error base/parallel base/shape base/workers comm/communicator comm/nccl/library comm/nccl/nccl_communicator comm/nccl/pending_watch
    device/device device/pool device/replayed tensor/kept tensor/node tensor/tensor tensor/view tensor/watch tile/cuda/runtime)
  list(TRANSFORM sources PREPEND ${PROJECT_SOURCE_DIR}/weft/)
  list(TRANSFORM sources APPEND .cpp)
  add_executable(nccl_test comm/nccl_test.cpp comm/fake_cuda.cpp ${sources})
  set_target_properties(nccl_test PROPERTIES ENABLE_EXPORTS ON)
  target_compile_definitions(nccl_test PRIVATE WEFT_NCCL_LIBRARY="")
  target_link_libraries(nccl_test PRIVATE GTest::gtest_main Threads::Threads ${CMAKE_DL_LIBS})
  add_dependencies(nccl_test fake_nccl)
  foreach(target IN ITEMS fake_nccl nccl_test)
    weft_target_defaults(${target})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${WEFT_NCCL_INCLUDE} ${CUDAToolkit_INCLUDE_DIRS})
  endforeach()
  gtest_discover_tests(nccl_test DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "unit" ENVIRONMENT LD_LIBRARY_PATH=${CMAKE_CURRENT_BINARY_DIR}/fake_nccl)
endif()
