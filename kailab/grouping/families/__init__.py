"""The families of workloads: how the pods of each kind of owner form gangs. ``plain_workloads`` has the families without subgroups."""
