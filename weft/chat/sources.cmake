# Conversations and chat templates.
target_sources(weft
  PRIVATE chat/chat_format.cpp chat/conversation.cpp
  PUBLIC FILE_SET HEADERS FILES chat/chat_format.h chat/conversation.h)
