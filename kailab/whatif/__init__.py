"""Try changes on forks of a lab, and compare the outcomes.

    found = what_if(lab, [Alternative("--drain n-0", drain_node(lab, "n-0"))], seconds=3600)
    found.comparisons[0].workloads

The comparison is with a fork that is left alone for the same time.

- ``fields`` (and ``kailab.lab.node_changes``): changes from the words of a command.
- ``alternatives``: the forks; ``outcome``: the state of one, and two of them compared.
- ``plan``: what manifests would change, field by field; ``plan_files``: a plan as a file.
- ``simulation``: whether and when new work would run."""
