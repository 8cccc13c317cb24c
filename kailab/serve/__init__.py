"""The live page of a lab: served on the loopback address to who has the printed URL. What it shows is the viewer's (``kailab.report``), of a
lab that goes on; what it does goes through the lab, as commands do.

    door        connections: how many, and for how long
    gate        who may ask: token, host, origin; the headers of every answer
    app         what can be asked, and the news that is pushed
    session     the lab: looked at, changed, taken back
"""
