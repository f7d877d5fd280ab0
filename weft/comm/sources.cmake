target_sources(weft
  PRIVATE
    comm/communicator.cpp
    comm/cores.cpp
    comm/launch.cpp
    comm/on_device.cpp
  PUBLIC FILE_SET HEADERS FILES
    comm/communicator.h
    comm/cores.h
    comm/launch.h
    comm/on_device.h)
