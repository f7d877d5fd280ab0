target_sources(weft
  PRIVATE
    comm/communicator.cpp
    comm/cores.cpp
    comm/launch.cpp
    comm/nccl/pending_watch.cpp
    comm/on_device.cpp
  PUBLIC FILE_SET HEADERS FILES
    comm/communicator.h
    comm/cores.h
    comm/launch.h
    comm/on_device.h)
if(WEFT_HAS_CUDA)
  set_property(SOURCE comm/on_device.cpp APPEND PROPERTY COMPILE_DEFINITIONS WEFT_HAS_CUDA)
endif()
if(WEFT_HAS_NCCL)
  weft_add_nccl(weft)
endif()
if(WEFT_HAS_MPI)
  weft_add_mpi(weft)
endif()
