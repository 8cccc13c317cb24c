"""The command line. Commands read options, call the packages below, and print; no decision is made here.

A call starts in ``main``; ``commands`` is the table of commands and imports the module of the command that was called. ``options`` are the options that
several commands share, ``selection`` the objects that a command names, ``labfile`` the lab between two commands, ``replay_options`` the options of
``replay``, ``sweep`` and ``capacity``. ``terminal`` writes all output; ``table``, ``object_tables``, ``jsonpath`` and ``top_screen`` format it.
``error_messages`` turns errors into messages and exit codes, ``signals`` SIGTERM into an interrupt. ``completion`` completes command lines.
Every other module has the commands of its name.
"""
