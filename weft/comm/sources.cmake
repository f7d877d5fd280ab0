target_sources(weft
  PRIVATE
    comm/communicator.cpp
    comm/on_device.cpp
  PUBLIC FILE_SET HEADERS FILES
    comm/communicator.h
    comm/on_device.h)
