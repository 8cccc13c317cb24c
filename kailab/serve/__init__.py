"""The live page of a lab, served on the loopback address to the holder of the printed URL. The page shows the viewer of ``kailab.report`` for a
running lab. Its actions go through the lab's file and lock, as commands do.

The path of an action: ``app`` receives the request. ``/preview`` decodes a change of objects with ``actions``, tries it on a fork and remembers it;
``/apply`` carries out a change that was previewed. ``/do`` (pause, go on, step, undo, advance) needs no preview. ``worker`` runs the action in the
lab's thread, ``session`` changes the lab, makes its ``view`` and hands it to a callback of ``worker`` (``session.show``), which publishes the update to all open
pages, and then saves the lab. Where the lab has no new view (a pause, an undo, a real cluster), ``worker`` reads it and publishes after the action.

    server          start and end: the socket, signals
    connections     limits on the number and idle time of connections
    authentication  token, cookie, Host and Origin of a request; headers of every response
    app             routes and the pushed updates
    page_files      the page, its modules and styles, and the library of example manifests
    worker          the thread of the lab, and the broadcast of updates
    session         the lab behind the page: read, change, preview, undo
    actions         the actions of the page, as changes of the lab
    held_lab        the lab kept in memory between changes, undo points, and a watch of a real cluster
    view            what the page shows: the viewer's form, increments, and the editable objects
    live_record     the lab's record in the form of evidence, updated reading by reading
    raw_text        the raw text behind each fact, encoded on request
"""

from kailab.model.optional_imports import require_extra

require_extra("serve", ("aiohttp",), "the live page")
