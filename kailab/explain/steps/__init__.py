"""Step families: functions that propose changes of objects, by what they change. ``kailab.explain.step_search`` tries them on forks."""
