"""By what a page of ours is told from anybody else's."""

#: Stands in the head of every page that is written.
PAGE_MARK = '<meta name="generator" content="pytest-memeval">'
