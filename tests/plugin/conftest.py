from plugin_project import project

__all__ = ["project"]
