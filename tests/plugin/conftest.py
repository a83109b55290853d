from chat_project import chat, chat_server
from plugin_project import project

__all__ = ["chat", "chat_server", "project"]
