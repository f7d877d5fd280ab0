target_sources(weft
  PRIVATE
    comm/communicator.cpp
  PUBLIC FILE_SET HEADERS FILES
    comm/communicator.h)
