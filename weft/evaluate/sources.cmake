# Tasks and their scores.
target_sources(weft
  PRIVATE
    evaluate/answers.cpp
    evaluate/examples.cpp
    evaluate/forms.cpp
    evaluate/python_random.cpp
    evaluate/results.cpp
    evaluate/shots.cpp
    evaluate/statistics.cpp
    evaluate/task.cpp
    evaluate/task_tokens.cpp
  PUBLIC FILE_SET HEADERS FILES
    evaluate/answers.h
    evaluate/examples.h
    evaluate/python_random.h
    evaluate/results.h
    evaluate/shots.h
    evaluate/statistics.h
    evaluate/task.h
    evaluate/task_tokens.h)
