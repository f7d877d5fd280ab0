target_sources(weft
  PRIVATE
    data/byte_level_json.cpp
    data/documents.cpp
    data/json_documents.cpp
    data/permutation.cpp
    data/sums.cpp
    data/text_dataset.cpp
    data/token_cache.cpp
    data/tokenise.cpp
    data/vocabulary.cpp
  PUBLIC FILE_SET HEADERS FILES
    data/dataset.h
    data/documents.h
    data/permutation.h
    data/sums.h
    data/token_cache.h
    data/vocabulary.h)
