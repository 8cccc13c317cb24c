"""The evidence of a lab: what happened is recorded, stored, verified, compared and replayed. Everything here works from a folder alone.

Recording: ``recorder`` observes a lab and keeps references in a ``recording``; when a test ends it writes them through ``sanitizing`` (objects cut
to what decisions need by ``redaction``) into a folder of a ``run``. ``lab_record`` keeps the recording of a lab that outlives its
commands. ``store`` reads all of it back.

    entries             the type of every entry in the files
    recorder            the observer that keeps and writes one lab's evidence
    recording           the value that the recorder fills, and the timeline
    lab_record          the recording of a lab in a file, part by part
    sanitizing, redaction               what is left out of objects and of free text
    run                 the folder of a run, with its checksums
    signing             signatures of runs
    store               runs and tests on disk: list, find, read, verify, prune, export
    cycles              the scheduler's cycles as recorded, for replays
    decision_log        decisions of each cycle with names instead of UIDs
    decision_file       the decisions of a scheduler in its own process
    observed_decisions  decisions of schedulers that report none, read off the cluster
    replay              decide a run again and compare
    diff                compare two runs
    history             the past of a lab, from evidence or from its record
    subject_timeline    what happened to one pod, PodGroup, queue or workload
    eviction_chains     who displaced whom, by workload and as chains
    workload_events     events by workload
    model_use           the use of GPUs by model
    cluster_state       pods, PodGroups, queues and nodes at one moment, as rows
    shares              quota, use and borrowing of queues
    wording             amounts, counts and names as texts
    canonical           JSON, times and file names, always written the same way
    metrics             metrics for Prometheus
"""
