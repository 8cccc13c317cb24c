"""The engine's input as a value.

``records`` defines nodes, queues, PodGroups and tasks, ``devices`` the requests for devices and their choice.
``snapshot.Snapshot`` holds all records, ``changes`` the difference between two snapshots, ``jsonform`` their JSON.
``counting`` counts GPUs, ``amounts`` formats amounts for messages.
"""
