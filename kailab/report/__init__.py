"""Reports of a run: text, Markdown, and the viewer's HTML page.

``summary`` renders text and Markdown. ``page`` writes the HTML page. For each lab, ``lab_form.read_recorded_lab`` reads
the evidence and ``LabFormBuilder`` builds its data: ``moments`` takes cycles, states, decisions and waits into
``columns``, ``racks`` groups nodes, and ``raw`` numbers the entries of the evidence. ``page_data`` defines the JSON
form, and ``viewer`` has the scripts that show it.
"""

from kailab.report.summary import render

__all__ = ["render"]
