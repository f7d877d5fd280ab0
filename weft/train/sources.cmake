target_sources(weft
  PRIVATE
    train/agreement.cpp
    train/best.cpp
    train/capture.cpp
    train/chart.cpp
    train/checkpoint.cpp
    train/compare.cpp
    train/config.cpp
    train/conversations.cpp
    train/config_checks.cpp
    train/evaluate.cpp
    train/export.cpp
    train/gradient_exchange.cpp
    train/gradient_tree.cpp
    train/history.cpp
    train/live_line.cpp
    train/optimizer.cpp
    train/optimizer_choice.cpp
    train/optimizers.cpp
    train/packing_choice.cpp
    train/plan.cpp
    train/progress.cpp
    train/report.cpp
    train/report_parts.cpp
    train/resume.cpp
    train/run_facts.cpp
    train/run_folder.cpp
    train/run_tasks.cpp
    train/same_on_ranks.cpp
    train/saved_state.cpp
    train/schedule.cpp
    train/setup.cpp
    train/shared_step.cpp
    train/sharding.cpp
    train/step.cpp
    train/task.cpp
    train/tensorboard.cpp
    train/trainer.cpp
    train/trainer_output.cpp
    train/trainer_setup.cpp
    train/trainer_step.cpp
    train/utilisation.cpp
    train/work_line.cpp
  PUBLIC FILE_SET HEADERS FILES
    train/agreement.h
    train/best.h
    train/capture.h
    train/chart.h
    train/checkpoint.h
    train/compare.h
    train/config.h
    train/evaluate.h
    train/export.h
    train/gradient_exchange.h
    train/gradient_tree.h
    train/history.h
    train/live_line.h
    train/optimizer.h
    train/optimizers.h
    train/plan.h
    train/progress.h
    train/report.h
    train/report_parts.h
    train/run_facts.h
    train/run_monitor.h
    train/run_folder.h
    train/run_tasks.h
    train/saved_state.h
    train/schedule.h
    train/setup.h
    train/sharding.h
    train/step.h
    train/tensorboard.h
    train/trainer.h
    train/utilisation.h
    train/work_line.h)

# toml++ is headers alone, the same for every processor, and one file needs it. A folder with nothing else in it keeps a cross
# build from looking into the host's.
find_path(WEFT_TOMLPLUSPLUS toml++/toml.h REQUIRED NO_CMAKE_FIND_ROOT_PATH)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/tomlplusplus)
file(CREATE_LINK ${WEFT_TOMLPLUSPLUS}/toml++ ${PROJECT_BINARY_DIR}/tomlplusplus/toml++ SYMBOLIC)
set_source_files_properties(train/config.cpp PROPERTIES INCLUDE_DIRECTORIES ${PROJECT_BINARY_DIR}/tomlplusplus)
set_source_files_properties(train/run_facts.cpp PROPERTIES COMPILE_DEFINITIONS WEFT_VERSION="${PROJECT_VERSION}")
