"""Programs for developers: generators of documents and tables, screenshots, and ``quick``, the checks that a change needs."""
